#include "all_reduce.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "reduction.hpp"
#include "thread_sanitizer.hpp"

namespace fakenccl {
namespace {

using fakecuda::Exposed;
using fakecuda::Operand;
using fakecuda::Work;

std::string describe(const CollectiveCall& call) {
  return "an all-reduce of " + std::to_string(call.count) + " elements of type " + std::to_string(call.type) +
         " with operation " + std::to_string(call.operation);
}

/// One all-reduce under way.
class Exchange {
 public:
  Exchange(std::shared_ptr<Communicator> communicator, const AllReduce& all_reduce, std::uint64_t number)
      : communicator_(std::move(communicator)),
        all_reduce_(all_reduce),
        number_(number),
        size_(bytes_of(all_reduce.type)) {}

  void run() {
    const std::size_t most = kChunkBytes / size_;
    for (std::size_t done = 0; done < all_reduce_.count; done += most) {
      if (!exchange(done, std::min(most, all_reduce_.count - done))) return;
    }
  }

 private:
  [[nodiscard]] const Communicator::Place& place() const { return communicator_->place(); }
  [[nodiscard]] RankBoard& own() const { return communicator_->board_of(place().rank); }

  bool exchange(std::size_t first, std::size_t count) {
    const std::uint64_t chunk = ++communicator_->chunks;
    result_.resize(count * size_);
    if (!copy(all_reduce_.send, first, false)) return false;
    std::memcpy(own().chunk.data(), result_.data(), result_.size());
    own().call = {all_reduce_.count, all_reduce_.type, all_reduce_.operation};
    own().arrived.store(chunk);
    communicator_->board().bell.ring();
    if (!wait_for_all(&RankBoard::arrived, chunk) || !agrees()) return false;
    std::memcpy(result_.data(), communicator_->board_of(0).chunk.data(), result_.size());
    for (int i = 1; i < place().ranks; ++i) {
      reduce(result_.data(), communicator_->board_of(i).chunk.data(), count, all_reduce_.type,
             all_reduce_.operation);
    }
    own().left.store(chunk);
    communicator_->board().bell.ring();
    return wait_for_all(&RankBoard::left, chunk) && copy(all_reduce_.receive, first, true);
  }

  /// Between the program's memory and `result_`.
  bool copy(const Operand& operand, std::size_t first, bool write) {
    fakecuda::Location where = *operand.location;
    where.offset += first * size_;
    Work work;
    work.label = write ? "the result of an all-reduce" : "the input of an all-reduce";
    work.accesses.push_back({where, result_.size(), write});
    bool carried_out = false;
    work.run = [&] {
      const Exposed exposed;
      if (write) {
        std::memcpy(where.bytes(), result_.data(), result_.size());
      } else {
        std::memcpy(result_.data(), where.bytes(), result_.size());
      }
      carried_out = true;
      return cudaSuccess;
    };
    execute(work);
    return carried_out;
  }

  bool wait_for_all(std::atomic<std::uint64_t> RankBoard::*counter, std::uint64_t value) {
    const auto there = [&](int rank) { return (communicator_->board_of(rank).*counter).load() >= value; };
    return communicator_->wait(
        [&] {
          for (int i = 0; i < place().ranks; ++i) {
            if (!there(i)) return false;
          }
          return true;
        },
        [&] { return stuck(there); });
  }

  template <typename There>
  std::string stuck(const There& there) const {
    for (int i = 0; i < place().ranks; ++i) {
      if (there(i)) continue;
      const RankBoard& missing = communicator_->board_of(i);
      const std::string waits = "all-reduce " + std::to_string(number_) + " of " + communicator_->name() +
                                " waits for rank " + std::to_string(i);
      if (missing.presence.load() == Presence::Left) return waits + ", which has destroyed its communicator";
      // It has not come to it yet.
      if (missing.launched.load() < number_) return "";
      return waits + ", which has launched it too: a deadlock, as by collectives in different orders";
    }
    return "";
  }

  /// Whether all ranks passed the same.
  bool agrees() {
    const CollectiveCall mine = own().call;
    for (int i = 0; i < place().ranks; ++i) {
      const CollectiveCall other = communicator_->board_of(i).call;
      if (other == mine) continue;
      communicator_->fail_all(ncclInvalidUsage, "collective " + std::to_string(number_) + " of rank " +
                                                    std::to_string(place().rank) + " is " + describe(mine) +
                                                    ", that of rank " + std::to_string(i) + " " +
                                                    describe(other));
      return false;
    }
    return true;
  }

  std::shared_ptr<Communicator> communicator_;
  const AllReduce& all_reduce_;
  std::uint64_t number_;
  std::size_t size_;
  std::vector<char> result_;
};

}  // namespace

Operation all_reduce_operation(const std::shared_ptr<Communicator>& communicator,
                               const AllReduce& all_reduce) {
  const std::string label = "all-reduce of " + std::to_string(all_reduce.count) + " elements";
  const auto begin = [communicator, all_reduce] {
    const std::uint64_t number = ++communicator->collectives;
    communicator->board_of(communicator->place().rank).launched.store(number);
    return [communicator, all_reduce, number] { Exchange(communicator, all_reduce, number).run(); };
  };
  return {label, false, begin};
}

}  // namespace fakenccl
