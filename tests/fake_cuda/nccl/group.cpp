#include "group.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "failure.hpp"

namespace fakenccl::group {
namespace {

struct Call {
  std::shared_ptr<Communicator> communicator;
  Step step;
  bool setup;
};

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Call> calls;
};

Group& group_of_thread() {
  thread_local Group group;
  return group;
}

std::vector<std::shared_ptr<Communicator>> start_all(std::vector<Call> calls) {
  std::vector<std::shared_ptr<Communicator>> started;
  for (Call& call : calls) {
    call.communicator->add(std::move(call.step), call.setup);
    const bool known = std::find(started.begin(), started.end(), call.communicator) != started.end();
    if (!known) started.push_back(std::move(call.communicator));
  }
  return started;
}

/// All of them go on together: one thread may have several ranks.
ncclResult_t finish_all(const std::vector<std::shared_ptr<Communicator>>& started) {
  for (;;) {
    ncclResult_t result = ncclSuccess;
    bool wait = false;
    for (const auto& communicator : started) {
      const ncclResult_t state = communicator->state();
      if (state != ncclSuccess && state != ncclInProgress) return state;
      if (state != ncclInProgress) continue;
      result = ncclInProgress;
      wait = wait || communicator->place().blocking;
    }
    if (!wait) return result;
    const Bell& bell = started.front()->board().bell;
    bell.wait(bell.count(), std::chrono::milliseconds(1));
  }
}

}  // namespace

ncclResult_t submit(const std::shared_ptr<Communicator>& communicator, Step step, bool setup) {
  Group& group = group_of_thread();
  if (group.depth == 0) return communicator->start(std::move(step), setup);
  group.calls.push_back({communicator, std::move(step), setup});
  return ncclSuccess;
}

void called(ncclResult_t result) {
  Group& group = group_of_thread();
  const bool failed = result != ncclSuccess && result != ncclInProgress;
  if (group.depth > 0 && failed && group.error == ncclSuccess) group.error = result;
}

void begin() { ++group_of_thread().depth; }

ncclResult_t end() {
  Group& group = group_of_thread();
  if (group.depth == 0) return fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group.depth > 0) return ncclSuccess;
  const auto calls = std::exchange(group.calls, {});
  const ncclResult_t error = std::exchange(group.error, ncclSuccess);
  return error != ncclSuccess ? error : finish_all(start_all(calls));
}

}  // namespace fakenccl::group
