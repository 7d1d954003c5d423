#include "round.hpp"

#include <array>
#include <string>

#include "failure.hpp"

namespace fakenccl {
namespace {

constexpr std::array kCalls = {"ncclCommWindowRegister", "ncclCommSplit", "ncclCommSplit"};

const char* call_of(Round round) { return kCalls.at(static_cast<std::size_t>(round)); }

}  // namespace

ncclResult_t check_round(Communicator& communicator, Round round) {
  for (int i = 0; i < communicator.place().ranks; ++i) {
    const auto other = communicator.notes().of<Round>(i);
    if (other == round) continue;
    return misuse(ncclInvalidUsage, communicator.name() + " calls " + call_of(round) + ", rank " +
                                        std::to_string(i) + " " + call_of(other));
  }
  return ncclSuccess;
}

}  // namespace fakenccl
