#include "sluice/ucx/message_plane.hpp"

#include <utility>

#include "plane.hpp"
#include "plane_channel.hpp"
#include "plane_transport.hpp"

namespace sluice::ucx {

MessagePlane::MessagePlane(process::Bootstrap& bootstrap, const PlaneOptions& options)
    : plane_(std::make_unique<Plane>(bootstrap, options)) {}

MessagePlane::~MessagePlane() = default;

std::uint32_t MessagePlane::rank() const noexcept { return plane_->rank(); }
std::uint32_t MessagePlane::ranks() const noexcept { return plane_->ranks(); }
Wake& MessagePlane::wake() noexcept { return plane_->wake(); }
void MessagePlane::share(std::mutex* turn) noexcept { plane_->share(turn); }
Wake& MessagePlane::second_wake() noexcept { return plane_->second_wake(); }
std::uint64_t MessagePlane::sleeps() const noexcept { return plane_->wake().sleeps(); }
bool MessagePlane::progress() { return plane_->progress(); }
void MessagePlane::settle(const std::function<bool()>& given_up) { plane_->settle(given_up); }
void MessagePlane::abandon() noexcept { plane_->abandon(); }

std::unique_ptr<Transport> MessagePlane::transport(std::uint32_t run, const Pipeline& pipeline, StageId stage,
                                                   std::vector<std::uint32_t> rank_of_stage,
                                                   host::SlotBuffers* buffers) {
  return std::make_unique<PlaneTransport>(*plane_, run, pipeline, stage, std::move(rank_of_stage), buffers);
}

std::unique_ptr<agree::GroupChannel> MessagePlane::channel(std::uint32_t run,
                                                           std::vector<std::uint32_t> ranks_of_group,
                                                           std::size_t longest) {
  return std::make_unique<PlaneChannel>(*plane_, run, std::move(ranks_of_group), longest);
}

}  // namespace sluice::ucx
