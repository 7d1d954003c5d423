#include "plane_transport.hpp"

#include <utility>

namespace sluice::ucx {

PlaneTransport::PlaneTransport(Plane& plane, std::uint32_t run, const Pipeline& pipeline, StageId stage,
                               std::vector<std::uint32_t> rank_of_stage, host::SlotBuffers* buffers)
    : plane_(plane),
      run_(run),
      core_(std::make_unique<TransportCore>(plane, run, pipeline, stage, std::move(rank_of_stage), buffers)) {
  plane_.open(run, *core_);
}

PlaneTransport::~PlaneTransport() {
  plane_.close_messages(run_);
  core_->close();
  plane_.keep(std::move(core_));
}

}  // namespace sluice::ucx
