#include "bindings.hpp"

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "method_argument.hpp"
#include "python_bootstrap.hpp"
#include "rank_pipeline.hpp"
#include "sluice/error.hpp"
#include "sluice/process/bytes.hpp"
#include "sluice/process/configuration.hpp"
#include "sluice/process/control_plane.hpp"
#include "sluice/ucx/message_plane.hpp"

namespace sluice::python {
namespace {

/// A rank may be busy with something else between steps, such as writing a checkpoint.
constexpr Duration kLongestPause = std::chrono::minutes(30);

std::string name_of(process::Failure::Kind kind) {
  switch (kind) {
    case process::Failure::Kind::Died:
      return "died";
    case process::Failure::Kind::Silent:
      return "silent";
    case process::Failure::Kind::Failed:
      return "failed";
    case process::Failure::Kind::Stalled:
      return "stalled";
  }
  return {};
}

class ProcessRank {
 public:
  ProcessRank(std::uint32_t rank, std::uint32_t ranks, std::uint32_t group, std::string host,
              py::function all_gather, const tools::Method& method, host::RunSettings settings,
              const process::Configuration& configuration)
      : settings_(std::move(settings)) {
    PythonBootstrap bootstrap(rank, ranks, std::move(host), std::move(all_gather));
    parts_.grid = {ranks / group, 1, group};
    check_stages(method.pipeline());
    process::check_same_configuration(bootstrap, configuration);
    process::ControlOptions control;
    control.stall_timeout = settings_.stall_timeout;
    control.exchange_timeout = kLongestPause;
    control.name_of = [grid = parts_.grid](std::uint32_t each) { return process::to_string(grid, each); };
    parts_.control = std::make_unique<process::ControlPlane>(bootstrap, control);
    ucx::PlaneOptions plane;
    plane.job = draw_job(bootstrap);
    parts_.plane = std::make_unique<ucx::MessagePlane>(bootstrap, plane);
    pipelines_.push_back(std::make_unique<RankPipeline>(parts_, 0, method, settings_));
  }
  /// Who is left waiting for this rank is told. A process that was forked meanwhile leaves all to this one.
  ~ProcessRank() {
    const py::gil_scoped_release released;
    if (!pipelines_.empty() && getpid() == process_) give_up("was deleted, or its process ended");
    close();
  }
  ProcessRank(const ProcessRank&) = delete;
  ProcessRank& operator=(const ProcessRank&) = delete;

  /// @return its number
  std::uint32_t add(const Pipeline& pipeline, const MethodArgument& method, const LimitArgument& limit) {
    check_open();
    tools::MethodSettings bounds;
    bounds.limits = limits(limit, pipeline);
    const tools::Method made = make_method(method, pipeline, bounds);
    check_stages(made.pipeline());
    host::RunSettings settings = settings_;
    settings.limits = made.settings().limits;
    settings.rules = made.settings().rules;
    const auto number = static_cast<std::uint32_t>(pipelines_.size());
    pipelines_.push_back(std::make_unique<RankPipeline>(parts_, number, made, std::move(settings)));
    return number;
  }

  void require_same(const process::Configuration& configuration) {
    check_open();
    const py::gil_scoped_release released;
    process::check_same_configuration(*parts_.control, configuration);
  }

  py::dict step(py::object code, bool forward_only, std::int64_t pipeline) {
    check_open();
    const std::uint32_t number =
        whole("pipeline", pipeline, 0, static_cast<std::int64_t>(pipelines_.size()) - 1);
    parts_.code.begin(std::move(code));
    host::RankReport own;
    running_ = true;
    const std::exception_ptr error = pipelines_[number]->run(forward_only, own);
    running_ = false;
    parts_.code.end();
    if (error) fail(error);
    py::dict result;
    result["seconds"] = std::chrono::duration<double>(own.ended - own.started).count();
    result["busy_seconds"] = std::chrono::duration<double>(own.busy).count();
    result["dispatching_seconds"] = std::chrono::duration<double>(own.dispatching).count();
    result["tasks"] = own.tasks;
    result["peak_in_flight"] = own.peak_in_flight;
    return result;
  }

  /// Ends the run on all ranks.
  void give_up(const std::string& cause) {
    if (parts_.control == nullptr || !broken_.empty()) return;
    broken_ = cause;
    // Within a step, messages belong to its threads.
    if (!running_) parts_.plane->abandon();
    parts_.control->fail(process::Failure::Kind::Failed,
                         process::to_string(parts_.grid, parts_.control->rank()) + ": " + cause);
  }

  /// What ended the run: its kind, the rank at fault and the cause. Nothing while the run goes on.
  [[nodiscard]] std::optional<std::tuple<std::string, std::uint32_t, std::string>> failure() const {
    if (parts_.control == nullptr) return std::nullopt;
    const std::optional<process::Failure> failure = parts_.control->failure();
    if (!failure) return std::nullopt;
    return std::tuple(name_of(failure->kind), failure->rank, failure->cause);
  }

  void check_idle() const {
    if (running_) throw Error("called within a step of the same rank");
  }

  void close() noexcept {
    if (getpid() != process_) forget();
    pipelines_.clear();
    parts_.plane.reset();
    parts_.control.reset();
  }

 private:
  void check_stages(const Pipeline& pipeline) const {
    if (pipeline.stages() == parts_.grid.stages) return;
    throw ConfigError(
        "pipeline",
        "has " + std::to_string(pipeline.stages()) + " stages for " + std::to_string(parts_.grid.ranks()) +
            " ranks" +
            (parts_.grid.group > 1 ? " in groups of " + std::to_string(parts_.grid.group) : std::string()));
  }

  void check_open() const {
    check_idle();
    if (!broken_.empty()) throw Error("an earlier step failed, and the run ended with it: " + broken_);
    if (pipelines_.empty()) throw Error("the run was closed");
  }

  void forget() noexcept {
    for (std::unique_ptr<RankPipeline>& pipeline : pipelines_) static_cast<void>(pipeline.release());
    static_cast<void>(parts_.plane.release());
    static_cast<void>(parts_.control.release());
  }

  static std::uint64_t draw_job(process::Bootstrap& bootstrap) {
    std::random_device random;
    process::ByteWriter writer;
    writer.put((std::uint64_t{random()} << 32U) | random());
    return process::ByteReader(bootstrap.all_gather(writer.bytes()).front()).get<std::uint64_t>();
  }

  [[noreturn]] void fail(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& what) {
      broken_ = what.what();
    }
    {
      const py::gil_scoped_release released;
      parts_.plane->abandon();
    }
    if (parts_.code.raised) std::rethrow_exception(std::exchange(parts_.code.raised, nullptr));
    std::rethrow_exception(error);
  }

  host::RunSettings settings_;
  RankParts parts_;
  std::vector<std::unique_ptr<RankPipeline>> pipelines_;
  std::string broken_;
  std::atomic<bool> running_{false};
  const pid_t process_ = getpid();
};

std::unique_ptr<ProcessRank> make(std::int64_t rank, std::int64_t ranks, std::string host,
                                  py::function all_gather, const Pipeline& pipeline,
                                  const MethodArgument& method, const LimitArgument& limit,
                                  const std::string& delays, std::int64_t seed,
                                  const TimeArgument& stall_timeout,
                                  const std::optional<TimeArgument>& nominal_compute,
                                  const process::Configuration& configuration, std::int64_t group) {
  const std::uint32_t all = whole("ranks", ranks);
  const std::uint32_t members = whole("group", group);
  if (all % members != 0) {
    throw ConfigError(
        "group", std::to_string(all) + " ranks cannot be divided into groups of " + std::to_string(members));
  }
  const std::uint32_t own = whole("rank", rank, 0, all - 1);
  tools::MethodSettings bounds;
  bounds.limits = limits(limit, pipeline);
  const tools::Method made = make_method(method, pipeline, bounds);
  host::RunSettings settings;
  settings.limits = made.settings().limits;
  settings.rules = made.settings().rules;
  settings.delays = host::DelayModel::parse(delays);
  settings.seed = static_cast<std::uint64_t>(seed);
  if (nominal_compute) settings.nominal_compute = duration("nominal_compute", *nominal_compute);
  settings.stall_timeout = duration("stall_timeout", stall_timeout);
  return std::make_unique<ProcessRank>(own, all, members, std::move(host), std::move(all_gather), made,
                                       settings, configuration);
}

}  // namespace

void bind_process_rank(py::module_& module) {
  py::class_<ProcessRank>(
      module, "ProcessRank",
      "One rank of a pipeline whose ranks are processes; `step` runs its share of an iteration.")
      .def(py::init(&make), py::arg("rank"), py::arg("ranks"), py::arg("host"), py::arg("all_gather"),
           py::arg("pipeline"), py::arg("method"), py::kw_only(),
           py::arg("limit") = LimitArgument(std::int64_t{32}), py::arg("delays") = "j0", py::arg("seed") = 0,
           py::arg("stall_timeout") = TimeArgument(60.0), py::arg("nominal_compute") = py::none(),
           py::arg("configuration") = process::Configuration{}, py::arg("group") = 1,
           R"(Joins the other ranks; all make one at the same time.

host: an address of rank 0's host that every rank can connect to.
all_gather: takes this rank's bytes and returns the bytes of all ranks, in order; called while joining only.
nominal_compute: seconds of a task that the delay levels j1 to j3 go by; what each rank measures if not given.
configuration: pairs of a field and its value, which must be the same on all ranks.
group: ranks of each stage, which agree on what runs next; rank = stage * group + its place in the group. Each has a
pipeline of its own, with the ranks at the same place.
Raises ConfigError naming the argument or the field and ranks that differ, Error naming ranks that cannot be reached.)")
      .def("step", &ProcessRank::step, py::arg("code"), py::arg("forward_only") = false,
           py::arg("pipeline") = 0,
           R"(Runs this rank's share of one iteration, on the calling thread.

code: an object with forward(chunk, microbatch, inputs) -> outputs, backward(chunk, microbatch, output_grads,
whole) -> input_grads and weight_grad(chunk, microbatch). Tensors are DLPack capsules, in one list an edge. If it
has after_task(), that is called after each of these, when what they returned is on its way.
pipeline: 0 for the one given first, or what `add` returned.
Raises what the code raised here; TaskError, Aborted or StallError naming the rank at fault.)")
      .def(
          "add", &ProcessRank::add, py::arg("pipeline"), py::arg("method"), py::kw_only(),
          py::arg("limit") = LimitArgument(std::int64_t{32}),
          R"(Another pipeline on the same connections; all ranks add it, in the same order. Returns its number.

Raises ConfigError naming the argument.)")
      .def("require_same", &ProcessRank::require_same, py::arg("configuration"),
           R"(Compares pairs of a field and its value with those of all ranks, which do the same.

Raises ConfigError naming the field and the ranks that differ; Aborted if another rank has failed.)")
      .def("give_up", &ProcessRank::give_up, py::arg("cause"), py::call_guard<py::gil_scoped_release>(),
           "Ends the run: the steps of all other ranks raise Aborted with the cause.")
      .def("failure", &ProcessRank::failure,
           "('died', 'silent', 'failed' or 'stalled', rank at fault, cause) of the run's end; None while it "
           "goes on.")
      .def(
          "close",
          [](ProcessRank& self) {
            self.check_idle();
            const py::gil_scoped_release released;
            self.close();
          },
          "Leaves the others in order. Takes about a second at most.");
}

}  // namespace sluice::python
