#include "ipc_mailbox.hpp"

#include <fmt/format.h>

#include <utility>

#include "sluice/error.hpp"

namespace sluice::cuda {

struct IpcMailbox::Head {
  std::uint64_t token;
  std::uint64_t rings;
  std::atomic<IpcState> state;
  alignas(IpcRing::kCacheLine) std::atomic<std::uint32_t> sleeper;
};

struct IpcMailbox::Entry {
  IpcTraffic traffic;
  std::uint64_t offset;
};

namespace {

constexpr std::size_t record_bytes(const IpcTraffic& traffic) noexcept {
  return sizeof(IpcMessage) + traffic.tensors * sizeof(IpcTensor);
}

constexpr std::size_t ring_bytes(const IpcTraffic& traffic) noexcept {
  return IpcRing::bytes(traffic.words, record_bytes(traffic));
}

constexpr std::size_t in_cache_lines(std::size_t bytes) noexcept {
  return (bytes + IpcRing::kCacheLine - 1) / IpcRing::kCacheLine * IpcRing::kCacheLine;
}

}  // namespace

IpcMailbox::IpcMailbox(std::uint64_t token, std::span<const IpcTraffic> traffic)
    : segment_(std::make_shared<IpcSegment>(bytes(traffic))) {
  head().token = token;
  head().rings = traffic.size();
  std::size_t offset = in_cache_lines(sizeof(Head) + traffic.size() * sizeof(Entry));
  for (std::size_t i = 0; i < traffic.size(); ++i) {
    entries()[i] = {traffic[i], offset};
    offset += ring_bytes(traffic[i]);
  }
}

IpcMailbox::IpcMailbox(std::shared_ptr<IpcSegment> segment, std::uint64_t token)
    : segment_(std::move(segment)) {
  const std::size_t size = segment_->size();
  if (size < sizeof(Head) || head().token != token || head().rings > (size - sizeof(Head)) / sizeof(Entry))
    throw Error("its shared memory holds something else");
}

std::size_t IpcMailbox::bytes(std::span<const IpcTraffic> traffic) noexcept {
  std::size_t total = in_cache_lines(sizeof(Head) + traffic.size() * sizeof(Entry));
  for (const IpcTraffic& each : traffic) total += ring_bytes(each);
  return total;
}

IpcRing IpcMailbox::ring(const IpcTraffic& traffic) const {
  for (const Entry& entry : entries()) {
    if (entry.traffic.from != traffic.from) continue;
    if (entry.traffic.words != traffic.words) {
      throw ConfigError("pipeline", fmt::format("its ends count {} and {} messages between them",
                                                entry.traffic.words, traffic.words));
    }
    if (entry.traffic.tensors != traffic.tensors) {
      throw ConfigError("layouts", fmt::format("its ends give a message {} and {} tensors",
                                               entry.traffic.tensors, traffic.tensors));
    }
    return {segment_->data() + entry.offset, traffic.words, record_bytes(traffic)};
  }
  throw ConfigError("pipeline", "its other end knows of no edge between them");
}

std::atomic<std::uint32_t>& IpcMailbox::sleeper() const noexcept { return head().sleeper; }

IpcState IpcMailbox::state() const noexcept { return head().state.load(std::memory_order_acquire); }

void IpcMailbox::set_state(IpcState state) const noexcept {
  head().state.store(state, std::memory_order_release);
}

IpcMailbox::Head& IpcMailbox::head() const noexcept { return *reinterpret_cast<Head*>(segment_->data()); }

std::span<IpcMailbox::Entry> IpcMailbox::entries() const noexcept {
  return {reinterpret_cast<Entry*>(segment_->data() + sizeof(Head)), head().rings};
}

}  // namespace sluice::cuda
