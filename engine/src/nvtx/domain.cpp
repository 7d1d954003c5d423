#include "sluice/nvtx/domain.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include "handle.hpp"

namespace sluice::nvtx {

const char* to_string(Category category) noexcept {
  switch (category) {
    case Category::Forward:
      return "forward";
    case Category::Backward:
      return "backward";
    case Category::WeightGrad:
      return "weight gradient";
    case Category::Wait:
      return "wait";
    case Category::Arrival:
      return "arrival";
    case Category::Decision:
      return "decision";
    case Category::Iteration:
      return "iteration";
    case Category::Profile:
      return "profile";
  }
  return "";
}

Domain::Domain() : handle_(std::make_unique<Handle>()) {
  for (const Category category :
       {Category::Forward, Category::Backward, Category::WeightGrad, Category::Wait, Category::Arrival,
        Category::Decision, Category::Iteration, Category::Profile})
    nvtxDomainNameCategoryA(handle_->get(), static_cast<std::uint32_t>(category), to_string(category));
}

Domain::~Domain() = default;

void name_this_thread(const std::string& name) {
  nvtxNameOsThreadA(static_cast<std::uint32_t>(syscall(SYS_gettid)), name.c_str());
}

}  // namespace sluice::nvtx
