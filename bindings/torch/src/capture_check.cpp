#include "sluice/torch/capture_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "capture_check_device.hpp"
#include "capture_check_module.hpp"
#include "capture_check_observer.hpp"
#include "capture_check_run.hpp"
#include "sluice/error.hpp"
#include "torch_cause.hpp"

namespace sluice::capture {
namespace {

struct FaultName {
  Fault fault;
  std::string_view name;
};

constexpr std::array<FaultName, 13> kFaultNames = {{
    {Fault::HostSync, "host-sync"},
    {Fault::DynamicShape, "dynamic-shape"},
    {Fault::HostTensor, "host-tensor"},
    {Fault::HostRandom, "host-random"},
    {Fault::DeviceRandom, "device-random"},
    {Fault::ValueDependentFlow, "value-dependent-flow"},
    {Fault::StateDependentFlow, "state-dependent-flow"},
    {Fault::EscapingMemory, "escaping-memory"},
    {Fault::InputKept, "input-kept"},
    {Fault::InputModified, "input-modified"},
    {Fault::InputReturned, "input-returned"},
    {Fault::HostState, "host-state"},
    {Fault::DoesNotRun, "does-not-run"},
}};

/// Two calls of a module did not do the same. What is found already explains a difference at its place.
/// @return whether they did the same
bool compare(std::vector<Finding>& findings, const std::vector<Called>& one, const std::vector<Called>& other,
             Fault fault, const std::string& cause) {
  const auto same = [](const Called& a, const Called& b) {
    return a.op == b.op && a.shapes == b.shapes && a.place.module == b.place.module;
  };
  const auto [at, at_other] = std::mismatch(one.begin(), one.end(), other.begin(), other.end(), same);
  if (at == one.end() && at_other == other.end()) return true;
  const Called& call = at != one.end() ? *at : *at_other;
  const bool explained = std::any_of(findings.begin(), findings.end(), [&](const Finding& each) {
    return each.fault == Fault::DynamicShape && each.module == call.place.module &&
           each.source == call.place.source;
  });
  if (explained) return false;
  const bool both = at != one.end() && at_other != other.end();
  const bool shapes = both && at->op == at_other->op && at->place.module == at_other->place.module;
  const auto name = [](auto call_at, const auto& calls) {
    return call_at == calls.end() ? "the end" : call_at->op;
  };
  const std::string what = shapes ? fmt::format("the shape of its result {}", cause)
                                  : fmt::format("which operators run {}: here {} or {}", cause, name(at, one),
                                                name(at_other, other));
  add_finding(
      findings,
      {fault,
       Severity::SilentlyWrong,
       call.backward,
       call.place.module,
       call.op,
       {call.op},
       call.place.source,
       what + "; a replay repeats what ran in the capture",
       "make one stage (or shape bucket) for each case, or compute all cases and choose by torch.where"});
  return false;
}

class Check {
 public:
  Check(const std::string& path, const CheckSettings& settings)
      : settings_(settings), on_host_(path), on_device_(path) {
    on_device_.check_inputs(settings.inputs);
    observer_ = std::make_shared<Observer>([this] { return on_device_.current_place(); });
  }

  CheckReport run() {
    run_on_host();
    on_device_.move_to_device();
    if (check_forward() && !settings_.forward_only) check_backward();
    if (settings_.forward_only) report_.without_backward = "not asked for";
    report_.findings = std::move(observer_->findings());
    std::stable_sort(report_.findings.begin(), report_.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
    return std::move(report_);
  }

 private:
  /// What does not even run there is not the capture's fault.
  void run_on_host() {
    for (const Variant variant : {Variant::One, Variant::Other}) {
      try {
        CheckedRun(on_host_, nullptr, {settings_.inputs, settings_.seed, variant, c10::kCPU, false})
            .forward();
      } catch (const std::exception& error) {
        throw Error(fmt::format("the module throws for these inputs: {}", cause_of(error)));
      }
    }
  }

  /// @return the calls of a run; none if it threw
  std::optional<std::vector<Called>> run_once(Variant variant, bool train) {
    CheckedRun run(on_device_, observer_.get(),
                   {settings_.inputs, settings_.seed, variant, kCheckedDevice, train});
    bool backward = false;
    try {
      const Observation observed(observer_);
      run.forward();
      run.judge();
      if (train) {
        report_.without_backward = run.why_no_backward();
        backward = report_.without_backward.empty();
        if (backward) run.backward();
      }
    } catch (const std::exception& error) {
      add_failure(error, backward, train);
      return std::nullopt;
    }
    return observer_->calls();
  }

  void add_failure(const std::exception& error, bool backward, bool train) {
    const std::string cause = cause_of(error);
    // What runs on a GPU alone says nothing of the module.
    if (cause.starts_with("Could not run '"))
      throw Error(
          fmt::format("cannot check this module without a GPU: {}", cause.substr(0, cause.find(". "))));
    const auto& findings = observer_->findings();
    const bool explained = std::any_of(findings.begin(), findings.end(), [&](const Finding& each) {
      return each.fault == Fault::HostTensor && each.severity == Severity::StopsCapture;
    });
    const std::string when = backward ? "its backward" : train ? "its forward for training" : "it";
    Finding finding{
        Fault::DoesNotRun, Severity::StopsCapture, backward, {}, "forward", {"forward"}, {}, {}, {}};
    finding.what =
        fmt::format("{} throws on a device, though it runs on the host: {}", when, cause_of(error));
    finding.advice =
        explained ? "see the host tensors found" : "what comes after is not checked: make it run first";
    const Place place = observer_->last_place();
    finding.module = place.module;
    finding.source = place.source;
    add_finding(observer_->findings(), std::move(finding));
  }

  bool check_forward() {
    const auto one = run_once(Variant::One, false);
    if (!one) return false;
    report_.forward_operators = one->size();
    const auto again = run_once(Variant::One, false);
    const auto other = run_once(Variant::Other, false);
    steady_ = again && compare(observer_->findings(), *one, *again, Fault::StateDependentFlow,
                               "changes from call to call");
    compare_values(again, other);
    return again && other;
  }

  void check_backward() {
    const auto one = run_once(Variant::One, true);
    if (!one) return;
    report_.backward_operators = static_cast<std::uint64_t>(
        std::count_if(one->begin(), one->end(), [](const Called& call) { return call.backward; }));
    compare_values(one, run_once(Variant::Other, true));
  }

  void compare_values(const std::optional<std::vector<Called>>& one,
                      const std::optional<std::vector<Called>>& other) {
    if (one && other && steady_)
      compare(observer_->findings(), *one, *other, Fault::ValueDependentFlow,
              "depends on values of the inputs");
  }

  const CheckSettings& settings_;
  CheckedModule on_host_;
  CheckedModule on_device_;
  std::shared_ptr<Observer> observer_;
  /// Calls with the same inputs do the same.
  bool steady_ = false;
  CheckReport report_;
};

}  // namespace

std::string_view name_of(Fault fault) {
  const auto* found = std::find_if(kFaultNames.begin(), kFaultNames.end(),
                                   [&](const FaultName& each) { return each.fault == fault; });
  return found == kFaultNames.end() ? "" : found->name;
}

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::Note:
      return "note";
    case Severity::Warning:
      return "warning";
    case Severity::SilentlyWrong:
      return "silently wrong";
    case Severity::StopsCapture:
      return "stops capture";
  }
  return "";
}

bool CheckReport::capturable() const {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& each) { return each.severity >= Severity::SilentlyWrong; });
}

CheckReport check_capture(const std::string& path, const CheckSettings& settings) {
  try {
    install_checked_device();
  } catch (const c10::Error& error) {
    throw Error(fmt::format("cannot check a capture in this process: {}", error.what_without_backtrace()));
  }
  return Check(path, settings).run();
}

}  // namespace sluice::capture
