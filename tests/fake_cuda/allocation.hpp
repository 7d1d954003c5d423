#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "activity.hpp"

namespace fakecuda {

enum class MemoryKind {
  Device,
  Graph,       ///< of a graph's own allocation node: there between that node and the one that frees it
  Peer,        ///< another process's, opened here
  Host,        ///< pinned
  Registered,  ///< the program's own, pinned later
  Nccl,        ///< ncclMemAlloc's: the runtime neither frees nor exports it
};

/// A piece of memory the runtime knows.
///
/// Device memory has two addresses: the program's, which cannot be read or written, so that a host access
/// faults as it would with a GPU, and the fake's own view of the same pages, between two guard pages. Pinned
/// memory has one.
class Allocation {
 public:
  /// Null if the system has no memory left.
  static std::shared_ptr<Allocation> device(std::size_t bytes, int device, MemoryKind kind);
  static std::shared_ptr<Allocation> peer(int file, std::size_t bytes, int device);
  static std::shared_ptr<Allocation> host(std::size_t bytes);
  static std::shared_ptr<Allocation> registered(void* memory, std::size_t bytes);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  [[nodiscard]] char* address() const { return address_; }
  /// Where the fake reads and writes it.
  [[nodiscard]] char* bytes() const { return view_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] MemoryKind kind() const { return kind_; }
  [[nodiscard]] bool on_device() const;
  [[nodiscard]] int device_index() const { return device_; }
  /// Of the pages, for another process to open.
  [[nodiscard]] int file() const { return file_; }
  [[nodiscard]] std::string name() const;

  /// False before it is allocated by its graph, and after it is freed.
  [[nodiscard]] bool live() const { return live_.load(); }
  /// Of a graph's memory: a launch that was enqueued allocates it, and nothing enqueued since frees it.
  [[nodiscard]] bool held() const { return held_.load(); }
  void set_held(bool held) { held_.store(held); }
  /// Fills it with 0xCD and makes it usable.
  void begin();
  /// Fills it with 0xDD, as a write that an access in flight races with, and says who wrote past its end.
  void end();
  /// Bytes behind the end that were written.
  [[nodiscard]] bool overrun() const;

  /// Operations enqueued that use it.
  void use() { ++users_; }
  void leave() { --users_; }
  [[nodiscard]] bool in_use() const { return users_.load() > 0; }

  /// Null for pinned memory.
  [[nodiscard]] Activity* activity() const { return activity_; }
  /// From now on the program's address belongs to who keeps freed addresses from being used again.
  void disown_address() { owns_address_ = false; }

 private:
  Allocation(MemoryKind kind, std::size_t bytes, int device);
  bool map_device(int file);
  bool map_host();
  void fill_rest();

  MemoryKind kind_;
  std::size_t size_;
  int device_;
  int file_ = -1;
  char* address_ = nullptr;
  char* view_ = nullptr;
  char* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  Activity* activity_ = nullptr;
  bool owns_address_ = true;
  std::atomic<bool> live_{true};
  std::atomic<bool> held_{false};
  std::atomic<int> users_{0};
};

/// `bytes` in whole pages.
[[nodiscard]] std::size_t whole_pages(std::size_t bytes);

}  // namespace fakecuda
