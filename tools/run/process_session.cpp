#include "run/process_session.hpp"

#include <exception>
#include <nlohmann/json.hpp>

#include "sluice/error.hpp"

#if SLUICE_HAVE_UCX

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sluice/agree/form.hpp"
#include "sluice/host/draws.hpp"
#include "sluice/host/lockstep_executor.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/process/configuration.hpp"
#include "sluice/process/exit_guard.hpp"
#include "sluice/process/process_place.hpp"
#include "sluice/process/process_run.hpp"
#include "sluice/trace/output_file.hpp"
#include "sluice/ucx/listener_bootstrap.hpp"
#include "sluice/ucx/message_plane.hpp"

#if SLUICE_HAVE_TORCH
#include "sluice/torch/process_groups.hpp"
#include "sluice/torch/tcp_store_bootstrap.hpp"
#endif

namespace sluice::tools {
namespace {

/// How long the hub waits for what the others were waiting for: they notice a failure within a sleep of
/// theirs.
constexpr Duration kReportsCome = std::chrono::seconds(1);
#if SLUICE_HAVE_TORCH
constexpr Duration kLongestCollective = std::chrono::minutes(30);
#endif

Duration join_timeout(const RunOptions& options) {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(options.processes.join_timeout_s));
}

/// One rank of one pipeline, with all that it works with.
class ProcessRank final : public host::PipelineRun {
 public:
  ProcessRank(process::ControlPlane& control, ucx::MessagePlane& plane, const process::RankGrid& grid,
              std::uint32_t run, agree::Form form, const Pipeline& pipeline, Policy policy,
              host::Workload workload, host::RunSettings settings)
      : place_(grid.place_of(control.rank())),
        buffers_(pipeline, place_.stage,
                 policy.slots(pipeline, place_.stage, settings.limit_of(place_.stage), settings.rules)) {
    const bool tensors = !workload.stages.empty();
    // While the ranks end a step together, nobody drives the plane.
    workload.after_iteration = [&control, &plane, after = std::move(workload.after_iteration)](
                                   std::uint32_t rank, const Iteration& iteration) {
      plane.settle([&control] { return control.failed(); });
      if (after) after(rank, iteration);
    };
    std::vector<std::uint32_t> rank_of_stage;
    for (StageId stage = 0; stage < grid.stages; ++stage)
      rank_of_stage.push_back(grid.rank_of({stage, place_.replica, place_.member}));
    transport_ =
        plane.transport(run, pipeline, place_.stage, std::move(rank_of_stage), tensors ? &buffers_ : nullptr);
    agreement_ = std::make_unique<SingleRank>();
    if (grid.group > 1) join_group(form, plane, grid, run, pipeline, policy.mode());
    workload.lockstep = lockstep_.get();
    run_ = std::make_unique<process::ProcessRun>(
        pipeline, std::move(policy), std::move(workload), std::move(settings),
        process::ProcessParts{grid, control, buffers_, *transport_, *agreement_, plane.wake()});
  }

  host::IterationReport run(const Iteration& iteration) override { return run_->run(iteration); }
  void rank_by(StageId stage, Hint hint) override { run_->rank_by(stage, std::move(hint)); }
  [[nodiscard]] DecisionLog& log(StageId stage) override { return run_->log(stage); }
  [[nodiscard]] std::vector<AgreementStatistics> agreements() const override { return run_->agreements(); }

 private:
  void join_group(agree::Form form, ucx::MessagePlane& plane, const process::RankGrid& grid,
                  std::uint32_t run, const Pipeline& pipeline, Mode mode) {
    const StageTasks tasks(pipeline, place_.stage);
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t member = 0; member < grid.group; ++member)
      ranks.push_back(grid.rank_of({place_.stage, place_.replica, member}));
    lockstep_ = plane.channel(2 * run, ranks, host::LockstepExecutor::kLongestMessage);
    // Ranks that follow one order have nothing to ask each other.
    if (mode != Mode::Readiness) return;
    channel_ = plane.channel(2 * run + 1, std::move(ranks), agree::needs(form, tasks).longest);
    agreement_ = agree::make_agreement(form, tasks, *channel_, clock_);
  }

  process::RankPlace place_;
  host::SteadyClock clock_;
  host::SlotBuffers buffers_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<agree::GroupChannel> lockstep_;
  std::unique_ptr<agree::GroupChannel> channel_;
  std::unique_ptr<Agreement> agreement_;
  std::unique_ptr<process::ProcessRun> run_;
};

}  // namespace

class ProcessSession::Impl {
 public:
  Impl(const RunOptions& options, const nlohmann::json& configuration)
      : grid_(options.grid()),
        seed_(options.seed),
        form_(agree::form_named(options.processes.agreement).value()),
        stall_report_(options.processes.stall_report) {
    meet(options);
    process::check_same_configuration(*meeting_, fields_of(configuration));
    control_ = std::make_unique<process::ControlPlane>(*meeting_, control_options(options));
    control_->on_failure([this](const process::Failure& failure) {
      guard_.arm(fmt::format("sluice: {} ends without having cleaned up: {}",
                             process::to_string(grid_, control_->rank()), failure.cause));
    });
    try {
      connect(options);
    } catch (const std::exception& error) {
      control_->fail(process::Failure::Kind::Failed, error.what());
      throw;
    }
  }

  std::unique_ptr<host::PipelineRun> run(const Pipeline& pipeline, Policy policy, host::Workload workload,
                                         host::RunSettings settings) {
    // Every rank has messages of its own, and so delays of its own.
    if (const process::RankPlace at = place(); at.replica > 0 || at.member > 0)
      settings.seed = host::draws::bits({seed_, at.replica, at.member});
    return std::make_unique<ProcessRank>(*control_, *plane_, grid_, runs_++, form_, pipeline,
                                         std::move(policy), std::move(workload), std::move(settings));
  }

  void fail(const std::string& cause) {
    plane_->abandon();
    control_->fail(process::Failure::Kind::Failed, cause);
    if (control_->rank() == 0 && !stall_report_.empty()) write_stall_report();
  }

  [[nodiscard]] process::RankPlace place() const { return grid_.place_of(control_->rank()); }

  process::RankGrid grid_;
  std::uint64_t seed_;
  agree::Form form_;
  std::string stall_report_;
  process::ExitGuard guard_;
  std::unique_ptr<process::Bootstrap> meeting_;
  std::unique_ptr<process::ControlPlane> control_;
  std::unique_ptr<ucx::MessagePlane> plane_;
  std::shared_ptr<gpt::ProcessGroups> groups_;

 private:
  static process::Configuration fields_of(const nlohmann::json& configuration) {
    process::Configuration fields = {{"version", SLUICE_VERSION}};
    for (const auto& [field, value] : configuration.items()) {
      fields.emplace_back(field, value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
    return fields;
  }

  [[nodiscard]] process::ControlOptions control_options(const RunOptions& options) const {
    process::ControlOptions control;
    control.stall_timeout = options.settings().stall_timeout;
    control.connect_timeout = join_timeout(options);
    control.name_of = [grid = grid_](std::uint32_t rank) { return process::to_string(grid, rank); };
    return control;
  }

  void connect(const RunOptions& options) {
    ucx::PlaneOptions plane;
    plane.job = draw_job();
    plane_ = std::make_unique<ucx::MessagePlane>(*meeting_, plane);
#if SLUICE_HAVE_TORCH
    // Death and standstill are the control plane's to find, so this need only be a bound.
    const Duration longest = std::max<Duration>(kLongestCollective, 2 * options.settings().stall_timeout);
    if (!options.emulated()) groups_ = std::make_shared<gpt::ProcessGroups>(grid_, *store_, longest);
#else
    static_cast<void>(options);
#endif
  }

  /// Tells this run's messages from those of any other.
  [[nodiscard]] std::uint64_t draw_job() const {
    std::random_device random;
    const std::uint64_t own = (std::uint64_t{random()} << 32U) | random();
    process::ByteWriter writer;
    writer.put(own);
    return process::ByteReader(meeting_->all_gather(writer.bytes()).front()).get<std::uint64_t>();
  }

  void meet(const RunOptions& options) {
#if SLUICE_HAVE_TORCH
    if (options.processes.rendezvous == "store") {
      gpt::TcpStoreSettings settings = gpt::TcpStoreSettings::from_environment();
      settings.timeout = join_timeout(options);
      auto store = std::make_unique<gpt::TcpStoreBootstrap>(std::move(settings));
      store_ = store.get();
      meeting_ = std::move(store);
      return;
    }
#endif
    meeting_ =
        std::make_unique<ucx::ListenerBootstrap>(process::environment_place().value(), join_timeout(options));
  }

  void write_stall_report() {
    nlohmann::json ranks = nlohmann::json::array();
    for (const std::string& report : control_->reports(kReportsCome))
      ranks.push_back(report.empty() ? nlohmann::json() : nlohmann::json::parse(report));
    const process::Failure failure = control_->failure().value();
    const nlohmann::json json = {{"cause", failure.cause}, {"rank", failure.rank}, {"ranks", ranks}};
    trace::write_file_atomically(stall_report_, json.dump(2) + "\n");
  }

#if SLUICE_HAVE_TORCH
  /// What the ranks met at, if that was a store.
  gpt::TcpStoreBootstrap* store_ = nullptr;
#endif
  std::uint32_t runs_ = 0;
};

ProcessSession::ProcessSession(const RunOptions& options, const nlohmann::json& configuration)
    : impl_(std::make_unique<Impl>(options, configuration)) {}

ProcessSession::~ProcessSession() = default;

void ProcessSession::fail(const std::string& cause) noexcept {
  try {
    impl_->fail(cause);
  } catch (const std::exception& error) {
    fmt::print(stderr, "sluice: {}\n", error.what());
  }
}
const process::RankGrid& ProcessSession::grid() const noexcept { return impl_->grid_; }
process::RankPlace ProcessSession::place() const noexcept { return impl_->place(); }
process::ControlPlane& ProcessSession::control() noexcept { return *impl_->control_; }
std::shared_ptr<gpt::ProcessGroups> ProcessSession::groups() const noexcept { return impl_->groups_; }

std::unique_ptr<host::PipelineRun> ProcessSession::run(const Pipeline& pipeline, Policy policy,
                                                       host::Workload workload, host::RunSettings settings) {
  return impl_->run(pipeline, std::move(policy), std::move(workload), std::move(settings));
}

}  // namespace sluice::tools

#else

namespace sluice::tools {

namespace {

[[noreturn]] void refuse_processes() {
  throw ConfigError("spawn", "this build has no UCX, so ranks can only be threads");
}

}  // namespace

class ProcessSession::Impl {};

ProcessSession::ProcessSession(const RunOptions&, const nlohmann::json&) { refuse_processes(); }
ProcessSession::~ProcessSession() = default;
void ProcessSession::fail(const std::string&) noexcept {}
const process::RankGrid& ProcessSession::grid() const noexcept { std::terminate(); }
process::RankPlace ProcessSession::place() const noexcept { return {}; }
process::ControlPlane& ProcessSession::control() noexcept { std::terminate(); }
std::shared_ptr<gpt::ProcessGroups> ProcessSession::groups() const noexcept { return nullptr; }
std::unique_ptr<host::PipelineRun> ProcessSession::run(const Pipeline&, Policy, host::Workload,
                                                       host::RunSettings) {
  refuse_processes();
}

}  // namespace sluice::tools

#endif

namespace sluice::tools {

void ProcessSession::finish() { [[maybe_unused]] const auto all = control().all_gather({}); }

double ProcessSession::from_whoever_knows(std::optional<double> value) {
  process::ByteWriter writer;
  writer.put(value);
  for (const std::vector<std::byte>& theirs : control().all_gather(writer.bytes())) {
    if (const auto known = process::ByteReader(theirs).get<std::optional<double>>()) return *known;
  }
  throw Error("no rank has a loss");
}

}  // namespace sluice::tools
