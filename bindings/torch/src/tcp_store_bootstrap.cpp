#include "sluice/torch/tcp_store_bootstrap.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "sluice/error.hpp"
#include "store_handle.hpp"
#include "store_socket.hpp"

namespace sluice::gpt {
namespace {

using std::chrono::milliseconds;
using Deadline = std::chrono::steady_clock::time_point;

constexpr milliseconds kFirstPause{1};
constexpr milliseconds kLongestPause{50};
/// How long the store outlives a failed meeting, so that the others can read why.
constexpr milliseconds kFailureGrace{2000};
constexpr const char* kFailure = "failure";

/// Asks until `reached` or the deadline. The store's own wait would tell neither who is missing nor that
/// somebody has failed.
template <typename Reached>
bool poll_until(Deadline deadline, Reached reached) {
  for (milliseconds pause = kFirstPause; !reached(); pause = std::min(2 * pause, kLongestPause)) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

std::string key_of(const std::string& step, std::uint32_t rank) { return step + "/" + std::to_string(rank); }

std::vector<std::string> keys_of(const std::string& step, std::uint32_t ranks) {
  std::vector<std::string> keys;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) keys.push_back(key_of(step, rank));
  return keys;
}

std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

Deadline after(Duration wait) { return std::chrono::steady_clock::now() + wait; }

}  // namespace

/// Gives the store's own errors a name.
template <typename Call>
void TcpStoreBootstrap::with_store(Call call) {
  try {
    call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(fmt::format("rank {} lost the store at {}: {}", rank(), place(), first_line(error)));
  }
}

TcpStoreBootstrap::TcpStoreBootstrap(TcpStoreSettings settings)
    : settings_(std::move(settings)), store_(std::make_unique<StoreHandle>()) {
  settings_.validate();
  connect();
  with_store([this] { join(); });
}

TcpStoreBootstrap::~TcpStoreBootstrap() = default;

std::string TcpStoreBootstrap::place() const { return fmt::format("{}:{}", settings_.host, settings_.port); }

void TcpStoreBootstrap::connect() {
  c10d::TCPStoreOptions options;
  options.port = settings_.port;
  options.isServer = settings_.hosts;
  options.waitWorkers = false;
  options.timeout = std::chrono::duration_cast<milliseconds>(settings_.timeout);
  try {
    if (settings_.hosts) {
      options.masterListenFd = StoreSocket::on_port(settings_.port).release();
    } else {
      await_server();
    }
    store_->store = c10::make_intrusive<c10d::PrefixStore>(
        "sluice/" + settings_.job, c10::make_intrusive<c10d::TCPStore>(settings_.host, options));
  } catch (const std::exception& error) {
    throw Error(fmt::format("rank {} cannot {} the store at {}: {}", rank(),
                            settings_.hosts ? "serve" : "reach", place(), first_line(error)));
  }
}

/// The store's own attempts to connect report each failure with their call stack.
void TcpStoreBootstrap::await_server() const {
  const bool is_served = poll_until(after(settings_.timeout),
                                    [this] { return accepts_connections(settings_.host, settings_.port); });
  if (!is_served) throw Error("nobody serves it");
}

void TcpStoreBootstrap::join() {
  store_->store->add("arrived", 1);
  const std::string own = std::to_string(ranks());
  const std::string others = store_->store->compareSet("ranks", "", own);
  if (others != own) {
    fail(fmt::format("rank {} was told of {} ranks, others of {}", rank(), own, others));
  }
  // Only a rank that fits counts as one that came: the others may go on as soon as all have.
  if (store_->store->add(key_of("joined", rank()), 1) != 1) {
    fail(fmt::format("two processes of the run at {} are rank {}", place(), rank()));
  }
  await("joined");
  leave("joined");
}

std::vector<std::vector<std::byte>> TcpStoreBootstrap::all_gather(std::span<const std::byte> own) {
  const std::string step = "step" + std::to_string(step_++);
  std::vector<std::vector<std::byte>> all;
  with_store([&] {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(own.data());
    store_->store->set(key_of(step, rank()), std::vector<std::uint8_t>(bytes, bytes + own.size()));
    await(step);
    for (const std::string& key : keys_of(step, ranks())) {
      const std::vector<std::uint8_t> value = store_->store->get(key);
      const auto* first = reinterpret_cast<const std::byte*>(value.data());
      all.emplace_back(first, first + value.size());
    }
    leave(step);
  });
  return all;
}

void TcpStoreBootstrap::await(const std::string& step) {
  c10d::Store& store = *store_->store;
  const std::vector<std::string> keys = keys_of(step, ranks());
  bool has_failed = false;
  const bool came = poll_until(after(settings_.timeout), [&] {
    has_failed = store.check({kFailure});
    return has_failed || store.check(keys);
  });
  if (has_failed) fail(store.get_to_str(kFailure));
  if (!came) {
    fail(fmt::format("{} did not come to {} within {} s", missing(step), place(),
                     std::chrono::duration<double>(settings_.timeout).count()));
  }
}

std::string TcpStoreBootstrap::missing(const std::string& step) const {
  std::vector<std::uint32_t> absent;
  for (std::uint32_t peer = 0; peer < ranks(); ++peer) {
    if (!store_->store->check({key_of(step, peer)})) absent.push_back(peer);
  }
  return fmt::format("{} {}", absent.size() == 1 ? "rank" : "ranks", fmt::join(absent, ", "));
}

/// The store must outlive the reading of the slowest rank.
void TcpStoreBootstrap::leave(const std::string& step) {
  const std::string left = step + "/left";
  store_->store->add(left, 1);
  if (!settings_.hosts) return;
  (void)poll_until(after(settings_.timeout), [&] { return store_->store->add(left, 0) == ranks(); });
}

void TcpStoreBootstrap::fail(const std::string& cause) {
  c10d::Store& store = *store_->store;
  (void)store.compareSet(kFailure, "", cause);
  store.add("failed", 1);
  if (settings_.hosts) {
    const std::int64_t arrived = store.add("arrived", 0);
    (void)poll_until(after(kFailureGrace), [&] { return store.add("failed", 0) >= arrived; });
  }
  throw Error(cause);
}

}  // namespace sluice::gpt
