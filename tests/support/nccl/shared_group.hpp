#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "../../../engine/src/cuda/ipc_ring.hpp"
#include "forked_ranks.hpp"
#include "sluice/agree/group_agreement.hpp"
#include "sluice/agree/group_channel.hpp"
#include "sluice/error.hpp"

namespace sluice::test {

/// A message plane for forked processes: a ring from each rank to each other, in memory that they share. Made
/// before they are forked.
class SharedGroup {
 public:
  SharedGroup(std::uint32_t ranks, const agree::ChannelNeeds& needs)
      : ranks_(ranks),
        unread_(needs.unread),
        record_((sizeof(std::size_t) + needs.longest + 7) / 8 * 8),
        rings_(ranks * ranks * cuda::IpcRing::bytes(unread_, record_)) {}

  /// One rank's end.
  [[nodiscard]] std::unique_ptr<agree::GroupChannel> channel(std::uint32_t rank) const {
    return std::make_unique<Channel>(*this, rank);
  }

 private:
  class Channel final : public agree::GroupChannel {
   public:
    Channel(const SharedGroup& group, std::uint32_t rank)
        : group_(group), rank_(rank), read_(group.record_) {}

    [[nodiscard]] std::uint32_t members() const noexcept override { return group_.ranks_; }
    [[nodiscard]] std::uint32_t member() const noexcept override { return rank_; }

    void send(std::uint32_t to, std::span<const std::byte> message) override {
      const std::size_t size = message.size();
      const cuda::IpcRing ring = group_.ring(rank_, to);
      std::byte* const record = ring.back();
      if (record == nullptr || sizeof size + size > group_.record_) throw Error("the message finds no room");
      std::memcpy(record, &size, sizeof size);
      std::copy(message.begin(), message.end(), record + sizeof size);
      ring.written();
    }

    bool poll(std::uint32_t& from, std::span<const std::byte>& message) override {
      for (std::uint32_t i = 0; i < group_.ranks_; ++i) {
        next_ = (next_ + 1) % group_.ranks_;
        const cuda::IpcRing ring = group_.ring(next_, rank_);
        const std::byte* const record = ring.front();
        if (record == nullptr) continue;
        std::copy(record, record + group_.record_, read_.begin());
        ring.read();
        std::size_t size = 0;
        std::memcpy(&size, read_.data(), sizeof size);
        from = next_;
        message = std::span(read_).subspan(sizeof size, size);
        return true;
      }
      return false;
    }

   private:
    const SharedGroup& group_;
    std::uint32_t rank_;
    std::uint32_t next_ = 0;
    std::vector<std::byte> read_;
  };

  [[nodiscard]] cuda::IpcRing ring(std::uint32_t from, std::uint32_t to) const {
    const std::size_t number = std::size_t{from} * ranks_ + to;
    return {rings_.as<std::byte>() + number * cuda::IpcRing::bytes(unread_, record_), unread_, record_};
  }

  std::uint32_t ranks_;
  std::size_t unread_;
  std::size_t record_;
  SharedMapping rings_;
};

}  // namespace sluice::test
