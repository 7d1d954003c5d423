#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/process/bootstrap.hpp"

namespace sluice::gpt {

struct StoreHandle;

/// Where the processes of a run meet, as torchrun tells each of them.
struct TcpStoreSettings {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  /// Where the store is served.
  std::string host = "localhost";
  std::uint16_t port = 0;
  /// This process serves the store.
  bool hosts = false;
  /// Tells this run from others that use the same store.
  std::string job = "default";
  /// Longest wait for the other ranks, when joining and in each exchange.
  Duration timeout = std::chrono::seconds(60);

  /// Reads what `process::environment_place` reads and torchrun's TORCHELASTIC_USE_AGENT_STORE (its agent
  /// serves the store, else rank 0 does), TORCHELASTIC_RUN_ID and TORCHELASTIC_RESTART_COUNT.
  /// @throws ConfigError naming the variable that is missing or malformed
  static TcpStoreSettings from_environment();

  /// @throws ConfigError naming the torchrun variable
  void validate() const;
};

/// Serves a store in a process that is no rank, for the ranks it will start: the port is free because it
/// is taken before anybody is told.
class TcpStoreHost {
 public:
  /// Serves on a free port of the loopback interface.
  /// @throws Error if no port can be had
  TcpStoreHost();
  ~TcpStoreHost();
  TcpStoreHost(const TcpStoreHost&) = delete;
  TcpStoreHost& operator=(const TcpStoreHost&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept;

 private:
  std::unique_ptr<StoreHandle> store_;
  std::uint16_t port_ = 0;
};

/// First words of the processes of a run over PyTorch's TCPStore, as torchrun provides it.
///
/// Used from one thread. The process that serves the store keeps it until every rank has read what it
/// waited for, but leaves a rank that comes later without it.
class TcpStoreBootstrap final : public process::Bootstrap {
 public:
  /// Joins the run and waits for all its ranks.
  /// @throws ConfigError naming a bad setting; Error naming host and port if the store cannot be served or
  ///         reached, the ranks that did not come, or a rank that was told of other counts
  explicit TcpStoreBootstrap(TcpStoreSettings settings);
  ~TcpStoreBootstrap() override;
  TcpStoreBootstrap(const TcpStoreBootstrap&) = delete;
  TcpStoreBootstrap& operator=(const TcpStoreBootstrap&) = delete;

  [[nodiscard]] std::uint32_t rank() const noexcept override { return settings_.rank; }
  [[nodiscard]] std::uint32_t ranks() const noexcept override { return settings_.ranks; }
  [[nodiscard]] const std::string& host() const noexcept override { return settings_.host; }
  [[nodiscard]] const TcpStoreSettings& settings() const noexcept { return settings_; }

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> own) override;

  /// For the process groups, which meet through the same store.
  [[nodiscard]] const StoreHandle& store() const noexcept { return *store_; }

 private:
  void connect();
  void await_server() const;
  void join();
  template <typename Call>
  void with_store(Call call);
  void await(const std::string& step);
  [[nodiscard]] std::string missing(const std::string& step) const;
  void leave(const std::string& step);
  [[noreturn]] void fail(const std::string& cause);
  [[nodiscard]] std::string place() const;

  TcpStoreSettings settings_;
  std::unique_ptr<StoreHandle> store_;
  std::uint64_t step_ = 0;
};

}  // namespace sluice::gpt
