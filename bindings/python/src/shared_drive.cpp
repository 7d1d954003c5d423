#include "shared_drive.hpp"

#include <algorithm>
#include <utility>

namespace sluice::python {

/// The rank's end of the tasks: it may belong to either thread, the one that has the turn.
class SharedDrive::Launches final : public Executor {
 public:
  explicit Launches(SharedDrive& drive) : drive_(drive) {}

  [[nodiscard]] std::uint32_t room(Lane lane) const override { return drive_.tasks_.room(lane); }
  void launch(const Launch& launch) override { drive_.launch(launch); }
  bool poll(Done& done) override {
    if (drive_.thrown_ != nullptr) std::rethrow_exception(drive_.thrown_);
    return drive_.tasks_.poll(done);
  }
  [[nodiscard]] Time next_deadline() const override { return drive_.tasks_.next_deadline(); }
  [[nodiscard]] std::string failure() const override { return drive_.tasks_.failure(); }

 private:
  SharedDrive& drive_;
};

SharedDrive::SharedDrive(const Pipeline& pipeline, StageId stage, std::vector<host::Stage*> code,
                         host::SlotBuffers& buffers, host::HostExecutor::Options options,
                         Wake& other_messages)
    : other_(*this, other_messages), tasks_(pipeline, stage, std::move(code), buffers, nobody_, options) {}

std::unique_ptr<Executor> SharedDrive::executor() { return std::make_unique<Launches>(*this); }

void SharedDrive::begin() noexcept {
  ended_.store(false, std::memory_order_relaxed);
  over_ = launched_ = in_task_ = false;
  driving_ = Duration{0};
}

void SharedDrive::end() noexcept {
  over_ = true;
  ended_.store(true, std::memory_order_release);
  if (sleeper_ != nullptr) sleeper_->notify();
  end_wake_.notify();
}

bool SharedDrive::drive(const Run& run, Time deadline, bool leaves) {
  std::unique_lock turn(turn_);
  in_task_ = false;
  while (!over_ && thrown_ == nullptr && !run.failed()) {
    const bool happened = advance(run);
    if (std::exchange(launched_, false)) {
      attend();
      return true;
    }
    if (happened) continue;
    if (run.dispatcher.finished()) break;
    if (clock_.now() >= deadline) {
      if (leaves) attend();
      return false;
    }
    sleeper_ = &run.messages;
    run.messages.wait_until(std::min(run.dispatcher.next_deadline(), deadline));
    sleeper_ = nullptr;
  }
  turn.unlock();
  other_.notify();
  end_wake_.wait_until(deadline);
  return false;
}

void SharedDrive::attend() noexcept {
  in_task_ = true;
  other_.attend();
}

void SharedDrive::Other::notify() noexcept {
  notified_.store(true, std::memory_order_release);
  messages_.notify();
  no_task_.notify();
}

void SharedDrive::Other::wait_until(Time deadline) {
  while (!notified_.exchange(false, std::memory_order_acq_rel) && drive_.clock_.now() < deadline) {
    if (drive_.in_task_) {
      messages_.wait_until(deadline);
      if (drive_.in_task_) return;
    } else {
      drive_.turn_.unlock();
      no_task_.wait_until(deadline);
      drive_.turn_.lock();
      // It drives once before it waits for messages: there may be a moment to wait for that it does not know
      // of.
      if (drive_.in_task_) return;
    }
  }
}

bool SharedDrive::advance(const Run& run) {
  const Time before = clock_.now();
  try {
    if (!run.dispatcher.progress()) return false;
  } catch (...) {
    thrown_ = std::current_exception();
    return true;
  }
  const Time after = clock_.now();
  driving_ += after - before;
  run.progressed(after);
  return true;
}

void SharedDrive::launch(const Launch& launch) {
  tasks_.launch(launch);
  launched_ = true;
  if (sleeper_ != nullptr) sleeper_->notify();
}

}  // namespace sluice::python
