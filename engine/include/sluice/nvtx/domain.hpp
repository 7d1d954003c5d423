#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace sluice::nvtx {

/// Categories of the domain, under the names that tools show.
enum class Category : std::uint32_t {
  /// Passes of tasks.
  Forward = 1,
  Backward,
  WeightGrad,
  Wait,
  Arrival,
  Decision,
  Iteration,
  Profile,
};

[[nodiscard]] const char* to_string(Category category) noexcept;

/// The NVTX domain `sluice` of this process, its categories named. Costs nothing but the calls where no tool
/// is attached.
class Domain {
 public:
  Domain();
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  /// What NVTX's own calls take; for this module.
  class Handle;
  [[nodiscard]] const Handle& handle() const noexcept { return *handle_; }

 private:
  std::unique_ptr<Handle> handle_;
};

/// Names the calling thread in whatever tool is attached.
void name_this_thread(const std::string& name);

}  // namespace sluice::nvtx
