#include "work.hpp"

#include <unistd.h>

#include <optional>

#include "call.hpp"
#include "chance.hpp"
#include "faults.hpp"
#include "report.hpp"

namespace fakecuda {
namespace {

/// Registers the accesses of an operation while it runs, and reports what they clash with.
class UnderWay {
 public:
  explicit UnderWay(const Work& work) {
    for (const Access& access : work.accesses) enter(work, access);
  }
  ~UnderWay() {
    for (const auto& [activity, place] : places_) activity->leave(place);
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  void enter(const Work& work, const Access& access) {
    Activity* activity = access.where.memory->activity();
    if (activity == nullptr) return;
    const std::size_t begin = access.where.offset;
    std::optional<Activity::Access> clash;
    const auto place = activity->enter({begin, begin + access.bytes, access.write, getpid()}, clash);
    if (clash) {
      report(work.label + (access.write ? " writes " : " reads ") + access.where.memory->name() +
             " while process " + std::to_string(clash->process) + (clash->write ? " writes" : " reads") +
             " the same bytes");
    }
    if (place) places_.emplace_back(activity, *place);
  }

  std::vector<std::pair<Activity*, std::size_t>> places_;
};

bool accesses_are_valid(const Work& work) {
  for (const Access& access : work.accesses) {
    const std::string wrong = misuse(access.where, access.bytes);
    if (wrong.empty()) continue;
    report(work.label + ": " + wrong);
    return false;
  }
  return true;
}

}  // namespace

void execute(const Work& work) {
  if (work.always) {
    delay();
    static_cast<void>(work.run());
    return;
  }
  if (device_error() != cudaSuccess) return;
  const cudaError_t planned = planned_failure("execute");
  if (planned != cudaSuccess) {
    device_failed(planned);
    return;
  }
  if (!accesses_are_valid(work)) {
    device_failed(cudaErrorIllegalAddress);
    return;
  }
  const UnderWay under_way(work);
  delay();
  device_failed(work.run());
}

void begin_use(const Work& work) {
  for (const Access& access : work.accesses) access.where.memory->use();
}

void end_use(const Work& work) {
  for (const Access& access : work.accesses) access.where.memory->leave();
}

}  // namespace fakecuda
