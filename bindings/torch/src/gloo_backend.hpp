#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <string>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace sluice::gpt {

/// The connection point of this process, shared by its gloo groups: one address and one thread serve all.
class GlooDevice {
 public:
  /// @param address of this host, at which the others reach it; the network interface in
  ///        GLOO_SOCKET_IFNAME goes first
  explicit GlooDevice(const std::string& address);
  ~GlooDevice();
  GlooDevice(const GlooDevice&) = delete;
  GlooDevice& operator=(const GlooDevice&) = delete;

  /// Connects the group's ranks, all of which make this call.
  /// @param store where they meet; no other group uses its keys
  /// @param timeout longest wait for the others, here and in each call on the group
  [[nodiscard]] c10::intrusive_ptr<c10d::Backend> connect(const c10::intrusive_ptr<c10d::Store>& store,
                                                          int rank, int size,
                                                          std::chrono::milliseconds timeout) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::gpt
