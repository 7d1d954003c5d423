#include "settings.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdlib>

#include "controls.hpp"

namespace fakecuda {
namespace {

std::atomic<int>& driver() {
  static std::atomic<int> version{static_cast<int>(setting("FAKECUDA_DRIVER", CUDART_VERSION))};
  return version;
}

std::atomic<bool> peers{true};

}  // namespace

long setting(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtol(text, nullptr, 10) : otherwise;
}

int device_count() {
  static const int kCount = static_cast<int>(setting("FAKECUDA_DEVICES", 1));
  return kCount;
}

std::uint64_t device_memory() {
  static const std::uint64_t kBytes = static_cast<std::uint64_t>(setting("FAKECUDA_MEMORY_MB", 4096)) << 20U;
  return kBytes;
}

int driver_version() { return driver().load(); }

bool peers_allowed() { return peers.load(); }

}  // namespace fakecuda

void fakecuda_driver_version(int version) { fakecuda::driver().store(version); }

void fakecuda_allow_peers(bool allowed) { fakecuda::peers.store(allowed); }
