#include "sluice/host/observed_executor.hpp"

namespace sluice::host {

bool ObservedExecutor::poll(Done& done) {
  if (!inner_.poll(done)) return false;
  if (ran_.size() < ran_.capacity()) ran_.push_back(done);
  average_.add(done.ended - done.started);
  return true;
}

void ObservedExecutor::begin(std::size_t tasks) {
  ran_.clear();
  ran_.reserve(tasks);
}

}  // namespace sluice::host
