#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/process/process_place.hpp"
#include "ucp_handles.hpp"
#include "ucx_log.hpp"

namespace sluice::ucx {

/// What the processes of a run say when they meet.
enum class Word : std::uint32_t {
  /// A rank, and how many it knows of: to rank 0.
  Join,
  /// All are here: from rank 0.
  Welcome,
  /// A rank's bytes of an exchange: to rank 0.
  Bytes,
  /// Everybody's bytes: from rank 0.
  All,
  /// Why nothing will come of it: from rank 0.
  Refused,
  /// One of rank 0's words has come: to rank 0.
  Heard,
};

struct Said {
  Word word = Word::Join;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  std::uint32_t round = 0;
  std::vector<std::byte> bytes;
};

/// A worker that talks by TCP only, with endpoints that notice when a peer is gone.
class ListenerLine {
 public:
  /// Called with what was said, and where to answer.
  using Heard = std::function<void(Said said, ucp_ep_h from)>;

  ListenerLine(const process::ProcessPlace& place, Heard heard);
  /// Waits until what was said last has been heard, but not for more than a second.
  ~ListenerLine();
  ListenerLine(const ListenerLine&) = delete;
  ListenerLine& operator=(const ListenerLine&) = delete;

  [[nodiscard]] ucp_worker_h worker() const noexcept { return worker_.get(); }
  [[nodiscard]] const process::ProcessPlace& place() const noexcept { return place_; }
  /// `node7:29500`.
  [[nodiscard]] std::string address() const;

  /// @return the endpoint, or null with `status` set
  ucp_ep_h connect(ucp_ep_params_t params, ucs_status_t& status);
  void disconnect(ucp_ep_h endpoint) noexcept;
  /// Why the endpoint's connection has failed; UCS_OK while it has not.
  [[nodiscard]] ucs_status_t status(ucp_ep_h endpoint) const;

  /// Starts to send; `bytes` are copied.
  void say(ucp_ep_h to, Word word, std::uint32_t round, std::span<const std::byte> bytes);
  /// Progresses, or lets a little time pass. Errors of what was heard are thrown.
  void progress();

 private:
  struct Connection {
    ucp_ep_h endpoint = nullptr;
    ucs_status_t status = UCS_OK;
    /// Words that have not been heard yet: closing the connection would lose them.
    std::uint32_t unheard = 0;
  };
  struct Saying;

  static ucs_status_t received(void* self, const void* header, std::size_t header_length, void* data,
                               std::size_t length, const ucp_am_recv_param_t* param);
  static void failed(void* connection, ucp_ep_h endpoint, ucs_status_t status);
  static void said(void* request, ucs_status_t status, void* saying);
  void hear(Said said, ucp_ep_h from);
  [[nodiscard]] Connection* find(ucp_ep_h endpoint) const;
  void rest() noexcept;
  void close(Connection& connection, Time deadline) noexcept;
  void finish(ucs_status_ptr_t request, Time deadline) noexcept;

  process::ProcessPlace place_;
  Heard heard_;
  std::exception_ptr error_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Saying>> sayings_;
  Context context_;
  Worker worker_;
};

}  // namespace sluice::ucx
