#include "agreement_conformance.hpp"

#include <memory>
#include <vector>

#include "sluice/agree/form.hpp"
#include "sluice/host/in_process_group.hpp"
#include "sluice/sim/sim_group.hpp"

namespace sluice {
namespace {

/// A rank on its own.
class Alone {
 public:
  static constexpr std::uint32_t kMembers = 1;
  explicit Alone(const StageTasks& /*tasks*/) {}
  [[nodiscard]] Agreement& member(std::uint32_t /*member*/) { return agreement_; }

 private:
  SingleRank agreement_;
};

/// The simulator's model, without latency.
template <sim::GroupRule Rule, std::uint32_t Members>
class Modelled {
 public:
  static constexpr std::uint32_t kMembers = Members;
  explicit Modelled(const StageTasks& tasks)
      : group_(tasks, Members, Rule, Duration{0}, 0, clock_, timetable_) {}
  [[nodiscard]] Agreement& member(std::uint32_t member) { return group_.endpoint(member); }

 private:
  sim::VirtualClock clock_;
  sim::Timetable timetable_;
  sim::SimGroup group_;
};

/// The runtime's own, over in-process channels.
template <agree::Form Form, std::uint32_t Members>
class Real {
 public:
  static constexpr std::uint32_t kMembers = Members;
  explicit Real(const StageTasks& tasks) : channels_(std::vector<Wake*>(Members), agree::needs(Form, tasks)) {
    for (std::uint32_t member = 0; member < Members; ++member)
      agreements_.push_back(agree::make_agreement(Form, tasks, channels_.channel(member), clock_));
  }
  [[nodiscard]] Agreement& member(std::uint32_t member) { return *agreements_[member]; }

 private:
  sim::VirtualClock clock_;
  host::InProcessGroup channels_;
  std::vector<std::unique_ptr<Agreement>> agreements_;
};

using agree::Form;
using sim::GroupRule;
using Implementations =
    ::testing::Types<Alone, Modelled<GroupRule::CommonCandidate, 1>, Modelled<GroupRule::CommonCandidate, 3>,
                     Modelled<GroupRule::FirstPick, 1>, Modelled<GroupRule::FirstPick, 3>,
                     Real<Form::Leader, 1>, Real<Form::Leader, 2>, Real<Form::Leader, 3>,
                     Real<Form::Leader, 4>, Real<Form::FirstPick, 1>, Real<Form::FirstPick, 2>,
                     Real<Form::FirstPick, 3>, Real<Form::FirstPick, 4>, Real<Form::Bitmap, 1>,
                     Real<Form::Bitmap, 2>, Real<Form::Bitmap, 3>, Real<Form::Bitmap, 4>>;
INSTANTIATE_TYPED_TEST_SUITE_P(All, AgreementConformance, Implementations);

}  // namespace
}  // namespace sluice
