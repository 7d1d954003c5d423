#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "sluice/trace/recorded_run.hpp"

namespace sluice::python {

/// Python's `Trace`: one run of a recording.
class RecordedTrace {
 public:
  RecordedTrace(std::shared_ptr<const trace::Recording> recording, std::size_t index)
      : recording_(std::move(recording)), index_(index) {}

  [[nodiscard]] const trace::Recording& recording() const noexcept { return *recording_; }
  [[nodiscard]] const trace::RecordedRun& run() const { return recording_->runs[index_]; }

 private:
  std::shared_ptr<const trace::Recording> recording_;
  std::size_t index_;
};

}  // namespace sluice::python
