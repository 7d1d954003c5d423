#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::agree {

/// Short messages between the ranks of one group. No call blocks.
///
/// A message arrives once, unchanged, and after those sent to the same member before it. Only the rank's
/// own thread calls its end of a channel. Errors of the medium are thrown as `Error`.
class GroupChannel {
 public:
  virtual ~GroupChannel() = default;

  [[nodiscard]] virtual std::uint32_t members() const noexcept = 0;
  /// This rank's number in the group.
  [[nodiscard]] virtual std::uint32_t member() const noexcept = 0;

  /// Copies the message.
  /// @param to another member
  /// @param message at most the bytes that the channel was built for
  virtual void send(std::uint32_t to, std::span<const std::byte> message) = 0;

  /// Fetches one message; false when there is none.
  /// @param message valid until the next call
  virtual bool poll(std::uint32_t& from, std::span<const std::byte>& message) = 0;
};

}  // namespace sluice::agree
