#include "sluice/nvtx/profile_range.hpp"

#include <dlfcn.h>

#include "handle.hpp"

namespace sluice::nvtx {
namespace {

constexpr std::uint32_t kColor = 0xffeda100;

/// Of whatever CUDA runtime library the process has loaded; nothing happens where there is none. Its result
/// says only whether a profiler is there.
void call_cuda(const char* function) noexcept {
  void* const found = dlsym(RTLD_DEFAULT, function);
  if (found != nullptr) reinterpret_cast<int (*)()>(found)();
}

}  // namespace

ProfileRange::ProfileRange(const Domain& domain, std::uint64_t first, std::uint64_t last)
    : domain_(domain),
      first_(first),
      last_(last),
      message_(nvtxDomainRegisterStringA(domain.handle().get(), "profile")) {}

ProfileRange::~ProfileRange() {
  if (open_) close();
}

void ProfileRange::begins(std::uint64_t iteration) {
  if (open_ || iteration < first_ || iteration > last_) return;
  open_ = true;
  call_cuda("cudaProfilerStart");
  nvtxEventAttributes_t event =
      event_of(Category::Profile, static_cast<nvtxStringHandle_t>(message_), kColor);
  set_payload(event, first_);
  range_ = nvtxDomainRangeStartEx(domain_.handle().get(), &event);
}

void ProfileRange::ended(std::uint64_t iteration) {
  if (open_ && iteration >= last_) close();
}

void ProfileRange::close() {
  open_ = false;
  nvtxDomainRangeEnd(domain_.handle().get(), range_);
  call_cuda("cudaProfilerStop");
}

}  // namespace sluice::nvtx
