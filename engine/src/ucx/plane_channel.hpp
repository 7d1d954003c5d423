#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plane.hpp"
#include "sluice/agree/group_channel.hpp"

namespace sluice::ucx {

/// A group's messages as active messages that are sent at once. UCX may deliver two of them out of order,
/// so they are numbered.
class PlaneChannel final : public agree::GroupChannel, public ChannelSink {
 public:
  /// @throws ConfigError naming `ranks` or `longest`
  PlaneChannel(Plane& plane, std::uint32_t run, std::vector<std::uint32_t> ranks_of_group,
               std::size_t longest);
  ~PlaneChannel() override;
  PlaneChannel(const PlaneChannel&) = delete;
  PlaneChannel& operator=(const PlaneChannel&) = delete;

  [[nodiscard]] std::uint32_t members() const noexcept override {
    return static_cast<std::uint32_t>(lines_.size());
  }
  [[nodiscard]] std::uint32_t member() const noexcept override { return member_; }
  void send(std::uint32_t to, std::span<const std::byte> message) override;
  bool poll(std::uint32_t& from, std::span<const std::byte>& message) override;

  void take(const ChannelHeader& header, std::span<const std::byte> message) override;

 private:
  /// What one member sent that was not fetched yet: a ring by sequence number.
  struct Line {
    std::uint32_t rank = 0;
    std::uint64_t sent = 0;
    /// Sequence number of the next message to be fetched.
    std::uint64_t next = 0;
    std::vector<std::byte> bytes;
    /// Length of each message, `kAbsent` where it is not here.
    std::vector<std::size_t> lengths;
  };
  static constexpr std::size_t kAbsent = ~std::size_t{0};

  [[nodiscard]] Line& line_of(std::uint32_t rank);
  void grow(Line& line, std::size_t room) const;
  bool fetch(std::uint32_t& from, std::span<const std::byte>& message);

  Plane& plane_;
  std::uint32_t run_;
  std::size_t longest_;
  std::uint32_t member_ = 0;
  std::vector<Line> lines_;
  std::vector<std::byte> fetched_;
  /// The member to look at first, so that none is left behind.
  std::uint32_t turn_ = 0;
};

}  // namespace sluice::ucx
