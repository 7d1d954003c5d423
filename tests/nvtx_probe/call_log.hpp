#pragma once

#include <nlohmann/json_fwd.hpp>

namespace sluice::nvtx_probe {

/// Appends one JSON object a line to the file that NVTX_PROBE_OUT names, with the process, the thread and the
/// time of the call added. Lines of several threads and processes do not mix.
class CallLog {
 public:
  /// Opened at the first call.
  static CallLog& instance();

  /// Safe from any thread.
  void write(nlohmann::json line) noexcept;

 private:
  CallLog();

  int descriptor_;
};

}  // namespace sluice::nvtx_probe
