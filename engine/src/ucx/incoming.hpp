#pragma once

#include <cstddef>
#include <span>

#include "sluice/ucx/message_header.hpp"

namespace sluice::ucx {

/// An active message as UCX hands it over. The header is valid during the call only.
struct Incoming {
  std::span<const std::byte> header;
  /// The payload's bytes, valid during the call; with `rendezvous`, UCX's description of what the sender
  /// holds.
  void* data = nullptr;
  /// Bytes of the payload.
  std::size_t length = 0;
  bool rendezvous = false;
};

/// Takes the pipeline's messages of one run.
class MessageSink {
 public:
  virtual ~MessageSink() = default;

  /// @return whether it keeps the description of the payload
  /// @throws ProtocolError saying what is wrong with the message
  virtual bool take(const MessageHeader& header, const Incoming& message) = 0;
  /// Word that the receiver has taken a message without payload.
  /// @throws ProtocolError if there is no such message
  virtual void taken(const MessageHeader& header) = 0;
};

/// Takes a group's messages of one run.
class ChannelSink {
 public:
  virtual ~ChannelSink() = default;

  /// @throws ProtocolError saying what is wrong with the message
  virtual void take(const ChannelHeader& header, std::span<const std::byte> message) = 0;
};

}  // namespace sluice::ucx
