#include "ipc_segment.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sluice/error.hpp"

namespace sluice::cuda {

IpcSegment::IpcSegment(std::size_t bytes) : descriptor_(memfd_create("sluice", MFD_CLOEXEC)), size_(bytes) {
  if (descriptor_ < 0 || ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) {
    const int cause = errno;
    if (descriptor_ >= 0) close(descriptor_);
    throw Error(fmt::format("no shared memory of {} bytes: {}", bytes, std::strerror(cause)));
  }
  map();
}

IpcSegment::IpcSegment(pid_t process, int descriptor, std::size_t bytes)
    : descriptor_(open(fmt::format("/proc/{}/fd/{}", process, descriptor).c_str(), O_RDWR | O_CLOEXEC)),
      size_(bytes) {
  struct stat status {};
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
    const int cause = errno;
    if (descriptor_ >= 0) close(descriptor_);
    throw Error(
        fmt::format("cannot open the shared memory of process {}: {}", process, std::strerror(cause)));
  }
  if (status.st_size != static_cast<off_t>(bytes)) {
    close(descriptor_);
    throw Error(fmt::format("the shared memory of process {} has {} bytes, expected {}", process,
                            status.st_size, bytes));
  }
  map();
}

IpcSegment::~IpcSegment() {
  munmap(data_, size_);
  close(descriptor_);
}

void IpcSegment::map() {
  void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED) {
    const int cause = errno;
    close(descriptor_);
    throw Error(fmt::format("cannot map shared memory of {} bytes: {}", size_, std::strerror(cause)));
  }
  data_ = static_cast<std::byte*>(memory);
}

}  // namespace sluice::cuda
