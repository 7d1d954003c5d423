#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::ucx {

/// @throws Error `UCX: <what>: <status>` if the status is an error
void check(ucs_status_t status, const char* what);

/// UCX's configuration: the environment, and what a program sets.
class Config {
 public:
  /// @throws Error if the environment holds what UCX cannot read
  Config();

  /// @throws Error if there is no such setting
  void set(const char* name, const char* value);
  /// Unless the environment sets it.
  void set_default(const char* name, const char* value);
  /// With versions of UCX that abort the process if a peer dies while TCP sends from a tensor, TCP sends
  /// copies. What processes of one host read from each other (CMA) and RDMA stay as they are. The environment
  /// goes first.
  void copy_over_tcp();
  [[nodiscard]] const ucp_config_t* get() const noexcept { return config_.get(); }

 private:
  struct Release {
    void operator()(ucp_config_t* config) const noexcept { ucp_config_release(config); }
  };
  std::unique_ptr<ucp_config_t, Release> config_;
};

class Context {
 public:
  /// @param features of ucp_feature
  /// @throws Error if UCX finds no device that it may use
  Context(std::uint64_t features, const Config& config);

  [[nodiscard]] ucp_context_h get() const noexcept { return context_.get(); }

 private:
  struct Cleanup {
    void operator()(ucp_context_h context) const noexcept { ucp_cleanup(context); }
  };
  std::unique_ptr<std::remove_pointer_t<ucp_context_h>, Cleanup> context_;
};

/// A worker of one thread, whose endpoints end with it.
class Worker {
 public:
  explicit Worker(const Context& context);

  [[nodiscard]] ucp_worker_h get() const noexcept { return worker_.get(); }
  /// @param network_only leaves out what only processes of this host can use
  [[nodiscard]] std::vector<std::byte> address(bool network_only) const;
  /// Longest header of an active message in bytes.
  [[nodiscard]] std::size_t longest_header() const;
  void on_message(unsigned id, ucp_am_recv_callback_t callback, void* argument);

 private:
  struct Destroy {
    void operator()(ucp_worker_h worker) const noexcept { ucp_worker_destroy(worker); }
  };
  std::unique_ptr<std::remove_pointer_t<ucp_worker_h>, Destroy> worker_;
};

}  // namespace sluice::ucx
