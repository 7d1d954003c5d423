#include "join.hpp"

#include <unistd.h>

#include "failure.hpp"
#include "group.hpp"

namespace fakenccl {
namespace {

ncclResult_t take_place(Communicator& communicator) {
  const auto& place = communicator.place();
  Board& board = communicator.board();
  int unknown = 0;
  if (!board.ranks.compare_exchange_strong(unknown, place.ranks) && unknown != place.ranks) {
    return misuse(ncclInvalidUsage, "one rank says that there are " + std::to_string(place.ranks) +
                                        " ranks, another that there are " + std::to_string(unknown));
  }
  RankBoard& own = communicator.board_of(place.rank);
  own.process.store(getpid());
  auto absent = Presence::Absent;
  if (!own.presence.compare_exchange_strong(absent, Presence::Joined)) {
    return misuse(ncclInvalidUsage, communicator.name() + " joins twice with the same unique id");
  }
  board.bell.ring();
  return ncclSuccess;
}

std::optional<ncclResult_t> wait_for_others(const Communicator& communicator) {
  for (int i = 0; i < communicator.place().ranks; ++i) {
    if (communicator.board_of(i).presence.load() == Presence::Absent) return std::nullopt;
  }
  Meeting::forget(communicator.meeting());
  return ncclSuccess;
}

/// The communicator owns the step.
Step waiting(const Communicator* communicator) {
  return [communicator] { return wait_for_others(*communicator); };
}

}  // namespace

ncclResult_t join(const std::shared_ptr<Meeting>& meeting, const Communicator::Place& place,
                  ncclComm_t* handle) {
  auto communicator = std::make_shared<Communicator>(meeting, place);
  if (const ncclResult_t refused = take_place(*communicator)) return refused;
  *handle = enter(communicator);
  return group::submit(communicator, waiting(communicator.get()), true);
}

ncclResult_t begin_join(const std::shared_ptr<Meeting>& meeting, const Communicator::Place& place,
                        ncclComm_t* handle) {
  auto communicator = std::make_shared<Communicator>(meeting, place);
  if (const ncclResult_t refused = take_place(*communicator)) return refused;
  communicator->add(waiting(communicator.get()), true);
  *handle = enter(std::move(communicator));
  return ncclSuccess;
}

ncclResult_t read_config(const ncclConfig_t* config, bool otherwise, bool& blocking) {
  blocking = otherwise;
  if (config == nullptr) return ncclSuccess;
  if (config->magic != NCCL_API_MAGIC || config->size == 0) {
    return fail(ncclInvalidArgument, "the configuration is not from NCCL_CONFIG_INITIALIZER");
  }
  if (config->blocking == NCCL_CONFIG_UNDEF_INT) return ncclSuccess;
  if (config->blocking != 0 && config->blocking != 1) {
    return fail(ncclInvalidArgument, "blocking is neither 0 nor 1");
  }
  blocking = config->blocking == 1;
  return ncclSuccess;
}

}  // namespace fakenccl
