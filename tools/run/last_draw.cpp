#include "run/last_draw.hpp"

#include <span>
#include <utility>

#include "run/run_statistics.hpp"

namespace sluice::tools {

LastDraw::LastDraw(const sim::Scenario& scenario, const std::vector<Method>& methods, std::uint64_t draw,
                   Parts wanted)
    : methods_(methods), draw_(draw), wanted_(wanted) {
  if (wanted_.timelines) timelines_.resize(methods.size());
  if (wanted_.decisions) decisions_ = nlohmann::json::array_t(methods.size());
  if (!wanted_.recordings) return;
  for (const Method& method : methods) {
    const MethodSettings& settings = method.settings();
    recordings_.push_back(std::make_unique<trace::RunBuilder>(trace::RecordedRun{
        method.name(), method.pipeline(), settings.limits, settings.rules, scenario.depth}));
  }
}

void LastDraw::watch(SimulationSettings& settings) {
  if (!wanted_.timelines && !wanted_.decisions && !wanted_.recordings) return;
  settings.inspect = [this](std::size_t method, const sim::World& world) { keep(method, world); };
  if (!wanted_.recordings) return;
  settings.recorders = [this](std::size_t method) { return recordings_[method]->recorders(); };
}

std::vector<trace::RecordedRun> LastDraw::recordings() const {
  std::vector<trace::RecordedRun> runs;
  for (const auto& each : recordings_) runs.push_back(each->run());
  return runs;
}

void LastDraw::keep(std::size_t number, const sim::World& world) {
  const Method& method = methods_[number];
  const std::uint32_t stages = method.pipeline().stages();
  if (wanted_.timelines) timelines_[number] = {method.name(), stages, spans_of(world, stages, draw_)};
  if (wanted_.recordings) keep_recording(number, world);
  if (wanted_.decisions) keep_decisions(number, world);
}

void LastDraw::keep_recording(std::size_t number, const sim::World& world) {
  std::vector<std::span<const Decision>> logs;
  for (StageId stage = 0; stage < methods_[number].pipeline().stages(); ++stage)
    logs.push_back(world.dispatcher(stage).log().decisions());
  recordings_[number]->keep({draw_, IterationKind::Training}, logs);
}

void LastDraw::keep_decisions(std::size_t number, const sim::World& world) {
  const Method& method = methods_[number];
  nlohmann::json by_stage = nlohmann::json::array();
  for (StageId stage = 0; stage < method.pipeline().stages(); ++stage) {
    nlohmann::json log = nlohmann::json::array();
    for (const Decision& decision : world.dispatcher(stage).log().decisions())
      log.push_back(to_json(decision));
    by_stage.push_back(std::move(log));
  }
  decisions_[number] = {{"method", method.name()}, {"stages", std::move(by_stage)}};
}

}  // namespace sluice::tools
