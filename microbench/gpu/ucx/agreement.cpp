#include <fmt/format.h>

#include <memory>
#include <vector>

#include "gpu/agreeing_ranks.hpp"
#include "gpu/subjects.hpp"
#include "sluice/agree/form.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/ucx/message_plane.hpp"

namespace sluice::microbench {
namespace {

class UcxRank final : public AgreeingRank {
 public:
  UcxRank(agree::Form form, const AgreedStage& stage, process::Bootstrap& bootstrap)
      : plane_(bootstrap, {}),
        channel_(plane_.channel(0, {0, 1}, agree::needs(form, stage.tasks).longest)),
        agreement_(agree::make_agreement(form, stage.tasks, *channel_, clock_)) {}

  [[nodiscard]] Agreement& agreement() override { return *agreement_; }
  void idle() override { plane_.progress(); }

 private:
  host::SteadyClock clock_;
  ucx::MessagePlane plane_;
  std::unique_ptr<agree::GroupChannel> channel_;
  std::unique_ptr<Agreement> agreement_;
};

}  // namespace

std::vector<Row> measure_ucx_agreement(const Effort& effort) {
  const AgreedStage stage;
  std::vector<Row> rows;
  for (const agree::Form form : agree::kForms) {
    const auto make = [&](process::Bootstrap& bootstrap) {
      return std::make_unique<UcxRank>(form, stage, bootstrap);
    };
    rows.push_back(median_row(fmt::format("{}, over UCX", agree::name(form)), "us",
                              time_agreement(effort.times(2000, 50), stage, make)));
  }
  return rows;
}

}  // namespace sluice::microbench
