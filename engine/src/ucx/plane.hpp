#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "host_identity.hpp"
#include "incoming.hpp"
#include "sluice/process/bootstrap.hpp"
#include "sluice/ucx/message_plane.hpp"
#include "sluice/ucx/tensor_pool.hpp"
#include "ucp_handles.hpp"
#include "ucx_log.hpp"
#include "worker_wake.hpp"

namespace sluice::ucx {

/// What outlives a transport until UCX no longer uses it.
class Remains {
 public:
  virtual ~Remains() = default;
  /// UCX has returned everything.
  [[nodiscard]] virtual bool done() const noexcept = 0;
};

/// What the transports and channels of a message plane share: the worker, the endpoints, and the way of an
/// incoming message to its run.
class Plane {
 public:
  Plane(process::Bootstrap& bootstrap, PlaneOptions options);
  ~Plane();
  Plane(const Plane&) = delete;
  Plane& operator=(const Plane&) = delete;

  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const noexcept { return static_cast<std::uint32_t>(peers_.size()); }
  [[nodiscard]] std::uint64_t job() const noexcept { return options_.job; }
  [[nodiscard]] ucp_worker_h worker() const noexcept { return worker_.get(); }
  [[nodiscard]] std::size_t longest_header() const noexcept { return longest_header_; }
  [[nodiscard]] WorkerWake& wake() noexcept { return wake_; }
  [[nodiscard]] WorkerWake& second_wake() noexcept { return second_wake_; }
  void share(std::mutex* turn) noexcept;
  [[nodiscard]] TensorPool& pool() noexcept { return pool_; }

  /// @throws what was noted since the last call
  bool progress();

  /// The endpoint to another rank, made when it is first asked for.
  /// @throws Error naming the rank that cannot be reached, or whose connection has failed
  ucp_ep_h endpoint(std::uint32_t rank);

  /// Sends a copy.
  void send_copy(MessageKind kind, std::uint32_t rank, std::span<const std::byte> header,
                 std::span<const std::byte> payload);

  /// From now on `sink` gets the messages of the run, first those that have come already.
  void open(std::uint32_t run, MessageSink& sink);
  void open(std::uint32_t run, ChannelSink& sink);
  void close_messages(std::uint32_t run) noexcept;
  void close_channel(std::uint32_t run) noexcept;
  /// Keeps what UCX may still use.
  void keep(std::unique_ptr<Remains> remains);

  /// The peers are not waited for when the plane ends.
  void abandon() noexcept { abandoned_ = true; }
  void settle(const std::function<bool()>& given_up);

  /// Notes an error for the next `progress`; the first one counts.
  void note(std::exception_ptr error) noexcept;
  void note_failed(std::uint32_t rank, const std::string& what, ucs_status_t status);

 private:
  struct Peer {
    Plane* plane = nullptr;
    std::uint32_t rank = 0;
    std::vector<std::byte> address;
    ucp_ep_h endpoint = nullptr;
    ucs_status_t status = UCS_OK;
    /// It has said that it sends no more.
    bool left = false;
  };
  /// A message whose run is not open here yet.
  struct Early {
    MessageKind kind = MessageKind::Pipeline;
    std::uint32_t run = 0;
    std::vector<std::byte> header;
    std::vector<std::byte> payload;
    void* descriptor = nullptr;
    std::size_t length = 0;
  };
  struct Copy;

  void exchange_addresses(process::Bootstrap& bootstrap);
  template <MessageKind kind>
  void listen();
  template <MessageKind kind>
  static ucs_status_t received(void* self, const void* header, std::size_t header_length, void* data,
                               std::size_t length, const ucp_am_recv_param_t* param);
  static void failed(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  static void copy_sent(void* request, ucs_status_t status, void* copy);

  bool deliver(MessageKind kind, const Incoming& message);
  bool deliver_message(MessageKind kind, const Incoming& message);
  bool deliver_channel(const Incoming& message);
  bool hold(MessageKind kind, std::uint32_t run, const Incoming& message);
  void deliver_early(std::uint32_t run, bool channel);
  void check_source(std::uint64_t job, std::uint32_t source) const;
  Copy& free_copy();
  void finish(Copy& copy, ucs_status_t status) noexcept;
  void note_left(const Incoming& message);
  void drop_early() noexcept;
  bool leave(Time deadline) noexcept;
  void flush(Time deadline) noexcept;
  void rest(Time deadline) noexcept;
  void wait_for(ucs_status_ptr_t request, Time deadline) noexcept;

  PlaneOptions options_;
  std::uint32_t rank_;
  std::vector<Peer> peers_;
  std::map<std::uint32_t, MessageSink*> messages_;
  std::map<std::uint32_t, ChannelSink*> channels_;
  std::set<std::uint32_t> closed_messages_;
  std::set<std::uint32_t> closed_channels_;
  std::vector<Early> early_;
  std::exception_ptr noted_;
  bool closing_ = false;
  bool abandoned_ = false;
  TensorPool pool_;
  std::vector<std::unique_ptr<Copy>> copies_;
  Copy* free_copies_ = nullptr;
  /// Destroyed after the worker, which may still use them.
  std::vector<std::unique_ptr<Remains>> remains_;
  /// While the worker ends.
  std::optional<QuietUcx> quiet_;
  Context context_;
  Worker worker_;
  std::size_t longest_header_;
  WorkerWake wake_;
  WorkerWake second_wake_;
};

}  // namespace sluice::ucx
