#include "method/adaptation.hpp"

namespace sluice::tools {

Adaptation::Adaptation(const Method& method, std::uint32_t depth, sim::GroupSettings group,
                       std::vector<sim::StageSetup>& setups)
    : measured_(method.pipeline()), hint_(method.auto_hint(depth, group)) {
  for (StageId stage = 0; stage < method.pipeline().stages(); ++stage) {
    recorders_.push_back(std::make_unique<Recorder>(Recorder::room_for_iteration(method.pipeline(), stage)));
    setups[stage].config.recorder = recorders_.back().get();
  }
}

void Adaptation::update(sim::World& world) {
  std::vector<Recorder*> recorders;
  for (const auto& each : recorders_) recorders.push_back(each.get());
  measured_.add(recorders);
  for (Recorder* each : recorders) each->clear();
  if (hint_.update(measured_)) rank(world);
}

void Adaptation::rank(sim::World& world) const {
  for (std::size_t stage = 0; stage < recorders_.size(); ++stage)
    world.rank_by(static_cast<StageId>(stage), hint_.hints()[stage]);
}

}  // namespace sluice::tools
