#include <fmt/format.h>

#include <memory>
#include <vector>

#include "gpu/agreeing_ranks.hpp"
#include "gpu/subjects.hpp"
#include "sluice/agree/form.hpp"
#include "sluice/host/in_process_group.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::microbench {
namespace {

class ThreadRank final : public AgreeingRank {
 public:
  ThreadRank(agree::Form form, const AgreedStage& stage, agree::GroupChannel& channel)
      : agreement_(agree::make_agreement(form, stage.tasks, channel, clock_)) {}

  [[nodiscard]] Agreement& agreement() override { return *agreement_; }

 private:
  host::SteadyClock clock_;
  std::unique_ptr<Agreement> agreement_;
};

}  // namespace

std::vector<Row> measure_agreement(const Effort& effort) {
  const std::uint32_t decisions = effort.times(5000, 50);
  const AgreedStage stage;
  std::vector<Row> rows;
  for (const agree::Form form : agree::kForms) {
    host::InProcessGroup group(std::vector<Wake*>(kAgreeingRanks), agree::needs(form, stage.tasks));
    const auto make = [&](process::Bootstrap& bootstrap) {
      return std::make_unique<ThreadRank>(form, stage, group.channel(bootstrap.rank()));
    };
    rows.push_back(median_row(fmt::format("{}, two threads of a process", agree::name(form)), "us",
                              time_agreement(decisions, stage, make)));
  }
  return rows;
}

}  // namespace sluice::microbench
