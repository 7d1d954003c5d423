#include "run/profiling.hpp"

#if SLUICE_HAVE_NVTX

#include <fmt/format.h>

#include <optional>

#include "run/process_session.hpp"
#include "sluice/nvtx/domain.hpp"
#include "sluice/nvtx/profile_range.hpp"
#include "sluice/nvtx/rank_annotations.hpp"

namespace sluice::tools {
namespace {

/// Always with its stage.
std::string name_of(const process::RankGrid& grid, std::uint32_t rank) {
  return grid.ranks() == grid.stages ? fmt::format("rank {} (stage {})", rank, rank) : to_string(grid, rank);
}

}  // namespace

class Profiling::Impl {
 public:
  explicit Impl(const ProfileOptions& options) : annotates(options.nvtx) {
    if (!options.used()) return;
    domain.emplace();
    if (const auto iterations = options.iterations())
      range.emplace(*domain, iterations->first, iterations->last);
  }

  bool annotates;
  std::optional<nvtx::Domain> domain;
  std::optional<nvtx::ProfileRange> range;
};

Profiling::Profiling(const ProfileOptions& options) : impl_(std::make_unique<Impl>(options)) {}

void Profiling::begins(std::uint64_t iteration) {
  if (impl_->range) impl_->range->begins(iteration);
}

void Profiling::ended(std::uint64_t iteration) {
  if (impl_->range) impl_->range->ended(iteration);
}

std::vector<std::unique_ptr<Observer>> Profiling::observers(const Pipeline& pipeline,
                                                            const std::string& method,
                                                            ProcessSession* session) const {
  std::vector<std::unique_ptr<Observer>> observers;
  if (!impl_->annotates) return observers;
  observers.resize(pipeline.stages());
  if (session != nullptr) {
    // One thread drives this process's rank under every method.
    const StageId own = session->place().stage;
    const std::string thread = name_of(session->grid(), session->control().rank());
    observers[own] = nvtx::annotate_rank(*impl_->domain, pipeline, own, {thread, method});
    return observers;
  }
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    observers[stage] =
        nvtx::annotate_rank(*impl_->domain, pipeline, stage,
                            {fmt::format("rank {} (stage {}), {}", stage, stage, method), method});
  }
  return observers;
}

}  // namespace sluice::tools

#else

namespace sluice::tools {

class Profiling::Impl {};

Profiling::Profiling(const ProfileOptions&) {}
void Profiling::begins(std::uint64_t) {}
void Profiling::ended(std::uint64_t) {}
std::vector<std::unique_ptr<Observer>> Profiling::observers(const Pipeline&, const std::string&,
                                                            ProcessSession*) const {
  return {};
}

}  // namespace sluice::tools

#endif

namespace sluice::tools {

Profiling::~Profiling() = default;

}  // namespace sluice::tools
