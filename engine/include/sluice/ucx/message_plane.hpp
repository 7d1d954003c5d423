#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "sluice/agree/group_channel.hpp"
#include "sluice/clock.hpp"
#include "sluice/host/slot_buffers.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/process/bootstrap.hpp"
#include "sluice/transport.hpp"

namespace sluice::ucx {

class Plane;
class ReceiveMemory;

struct PlaneOptions {
  /// Tells the messages of this job from those of any other; the same on all ranks.
  std::uint64_t job = 0;
  /// Longest wait, when the plane ends, for its peers to end theirs.
  Duration closing = std::chrono::seconds(1);
  /// Where received tensors lie; null for this process's memory.
  std::shared_ptr<ReceiveMemory> memory{};
};

/// One process's end of the connections between all ranks, over UCX active messages: a worker, and an
/// endpoint to each rank that is sent to. Payloads go by rendezvous only, so that an offer costs the
/// receiver no memory.
///
/// Used by one thread at a time, but for `Wake::notify`.
class MessagePlane {
 public:
  /// Exchanges addresses with all ranks.
  /// @throws Error naming the rank that cannot be reached, or what UCX refuses
  MessagePlane(process::Bootstrap& bootstrap, const PlaneOptions& options);
  /// Drops what is in flight. Waits until the connected ranks end their planes too, so that nothing is lost
  /// on the way to them; not after an error or `abandon`, and never for longer than the options say.
  ~MessagePlane();
  MessagePlane(const MessagePlane&) = delete;
  MessagePlane& operator=(const MessagePlane&) = delete;

  [[nodiscard]] std::uint32_t rank() const noexcept;
  [[nodiscard]] std::uint32_t ranks() const noexcept;

  /// Where the rank's thread sleeps: until a message, a notification or the deadline. Returns at once if
  /// anything came since the last wait.
  [[nodiscard]] Wake& wake() noexcept;
  /// While the lock is not null, two threads drive the plane in turns: whoever does holds the lock, which a
  /// wait gives up for as long as it sleeps. One of them waits on `wake`, the other one on `second_wake`.
  void share(std::mutex* turn) noexcept;
  [[nodiscard]] Wake& second_wake() noexcept;
  /// How often a wait really slept.
  [[nodiscard]] std::uint64_t sleeps() const noexcept;

  /// Carries out what UCX has to do. True if a message came or left.
  /// @throws Error naming the rank whose connection failed
  bool progress();

  /// The run has failed: the end of the plane does not wait for the peers.
  void abandon() noexcept;

  /// Waits until what was sent has left this process, which a finished send does not say: for a rank that
  /// will not drive the plane for a while.
  /// @param given_up asked now and then; true ends the wait
  void settle(const std::function<bool()>& given_up);

  /// The transport of one pipeline over this plane. Several may exist at a time; they are told apart by
  /// `run`, which is the same on all ranks. The plane outlives it.
  /// @param rank_of_stage which rank has each stage of this rank's own pipeline
  /// @param buffers null where messages carry no tensors
  [[nodiscard]] std::unique_ptr<Transport> transport(std::uint32_t run, const Pipeline& pipeline,
                                                     StageId stage, std::vector<std::uint32_t> rank_of_stage,
                                                     host::SlotBuffers* buffers);

  /// A channel between some of the ranks, told apart by `run`. The plane outlives it.
  /// @param ranks_of_group in the order of their numbers in the group; this rank is among them
  /// @param longest bytes of a message
  [[nodiscard]] std::unique_ptr<agree::GroupChannel> channel(std::uint32_t run,
                                                             std::vector<std::uint32_t> ranks_of_group,
                                                             std::size_t longest);

 private:
  std::unique_ptr<Plane> plane_;
};

}  // namespace sluice::ucx
