#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sluice/torch/capture_check.hpp"

namespace at {
class RecordFunction;
}

namespace sluice::capture {

/// Where code is.
struct Place {
  std::string module;
  std::string source;
};

/// An operator that the module's code or a node of autograd called.
struct Called {
  std::string op;
  Place place;
  bool backward = false;
  std::vector<std::vector<std::int64_t>> shapes;
};

/// Storages by identity, which are not kept from being freed.
using StorageId = const c10::StorageImpl*;

/// Adds a finding unless it is there.
void add_finding(std::vector<Finding>& findings, Finding finding);

/// Judges every operator that is called while it observes (see `Observation`), also in autograd's threads.
class Observer {
 public:
  /// @param place of the code that runs now in this thread; empty outside of a module
  explicit Observer(std::function<Place()> place) : place_(std::move(place)) {}

  /// A new call of the module begins, with these inputs.
  void begin(const std::vector<at::Tensor>& inputs);
  /// What follows is not the module's own.
  void pause(bool paused) { paused_ = paused; }

  [[nodiscard]] const std::vector<Called>& calls() const noexcept { return calls_; }
  [[nodiscard]] std::vector<Finding>& findings() noexcept { return findings_; }
  [[nodiscard]] bool is_input(const at::Tensor& tensor) const;
  /// The operator that made a tensor's memory in this call, if one did.
  [[nodiscard]] std::optional<Called> maker_of(const at::Tensor& tensor) const;

  /// Where the last operator was called.
  [[nodiscard]] const Place& last_place() const noexcept { return last_place_; }

  void enter(const at::RecordFunction& function);
  void leave(const at::RecordFunction& function);

 private:
  struct Frame {
    std::string name;
    /// A node of autograd, not an operator.
    bool node = false;
    bool backward = false;
    Place place;
    /// Place in `findings_` of what was found at this call, or in one around it.
    std::map<Fault, std::size_t> found;
  };
  struct Maker {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    Called call;
    /// The module's code sees it.
    bool outermost = false;
  };
  struct Judged;

  Frame enter_node(const at::RecordFunction& function, const std::vector<Frame>& around);
  Frame enter_operator(const at::RecordFunction& function, const std::vector<Frame>& around);
  void judge(const Judged& judged);
  void judge_copy(const Judged& judged);
  void judge_values(const Judged& judged);
  void judge_host_tensors(const Judged& judged);
  void judge_random(const Judged& judged);
  void judge_writes(const Judged& judged);
  void find(const Judged& judged, Fault fault, Severity severity, std::string what, std::string advice);
  [[nodiscard]] bool is_constant_of_code(const at::Tensor& tensor) const;
  std::vector<Frame>& frames() { return frames_[std::this_thread::get_id()]; }

  std::function<Place()> place_;
  std::mutex mutex_;
  bool paused_ = false;
  Place last_place_;
  std::map<std::thread::id, std::vector<Frame>> frames_;
  /// By autograd's sequence number: where the forward of a node ran.
  std::map<std::int64_t, Place> forward_places_;
  std::vector<Called> calls_;
  std::unordered_map<StorageId, Maker> makers_;
  std::unordered_set<StorageId> inputs_;
  std::vector<Finding> findings_;
};

/// An observer sees the operators of this thread, and of what autograd runs for it, while this lives.
class Observation {
 public:
  explicit Observation(std::shared_ptr<Observer> observer);
  ~Observation();
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::capture
