#include "method/adaptation.hpp"

namespace sluice::tools {

Adaptation::Adaptation(const Method& method, std::uint32_t depth, sim::GroupSettings group,
                       std::vector<sim::StageSetup>& setups)
    : measured_(method.pipeline()), hint_(method.auto_hint(depth, group)) {
  for (StageId stage = 0; stage < method.pipeline().stages(); ++stage) {
    Recorder*& recorder = setups[stage].config.recorder;
    if (recorder == nullptr) {
      const std::size_t room = Recorder::room_for_iteration(method.pipeline(), stage);
      recorder = own_.emplace_back(std::make_unique<Recorder>(room)).get();
    }
    recorders_.push_back(recorder);
  }
}

void Adaptation::update(sim::World& world) {
  measured_.add(recorders_);
  for (Recorder* each : recorders_) each->clear();
  if (hint_.update(measured_)) rank(world);
}

void Adaptation::rank(sim::World& world) const {
  for (std::size_t stage = 0; stage < recorders_.size(); ++stage)
    world.rank_by(static_cast<StageId>(stage), hint_.hints()[stage]);
}

}  // namespace sluice::tools
