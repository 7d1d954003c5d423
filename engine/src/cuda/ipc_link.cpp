#include "ipc_link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string_view>

#include "meeting.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/error.hpp"

namespace sluice::cuda {
namespace {

constexpr std::uint64_t kDirections = 2;
/// A neighbour may be one iteration ahead.
constexpr std::uint64_t kIterations = 2;

std::shared_ptr<IpcSegment> segment_of(const IpcCard& card, bool same_process) {
  if (same_process) return *card.own_segment;
  return std::make_shared<IpcSegment>(card.place.process, card.segment, card.segment_bytes);
}

std::uint64_t any_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

IpcCard card_of(const IpcMember& member, const IpcMailbox& own) {
  IpcCard card;
  card.stage = member.stage;
  card.place = this_place();
  check(cudaGetDevice(&card.device), "asking for the current device");
  card.pipeline = extent_of(member.pipeline);
  card.segment = own.segment()->descriptor();
  card.segment_bytes = own.segment()->size();
  card.own_segment = &own.segment();
  const DeviceMemory& block = member.slots.block();
  card.block_bytes = block.size();
  card.own_block = block.data();
  if (block.size() > 0) card.handle_error = cudaIpcGetMemHandle(&card.block, block.data());
  if (card.handle_error != cudaSuccess) static_cast<void>(cudaGetLastError());
  return card;
}

void check_card(const IpcCard& card, StageId stage, const Pipeline& pipeline) {
  if (card.stage != stage)
    throw ConfigError("ranks", fmt::format("it has stage {}, expected {}", card.stage, stage));
  if (card.pipeline != extent_of(pipeline))
    throw ConfigError("pipeline", "it has other chunks, edges or microbatches");
}

}  // namespace

IpcLink::IpcLink(const IpcTraffic& traffic, StageId own_stage, std::uint32_t rank, const IpcMailbox& own,
                 const IpcPlace& own_place, const IpcCard& card)
    : stage_(traffic.from),
      rank_(rank),
      same_process_(cuda::same_process(own_place, card.place)),
      theirs_(segment_of(card, same_process_), card.token),
      wake_(theirs_.sleeper()),
      in_(own.ring(traffic)),
      out_(theirs_.ring({own_stage, traffic.tensors, traffic.words})),
      imported_(same_process_ ? ImportedMemory() : ImportedMemory(card)),
      block_(same_process_ ? card.own_block : imported_.data()),
      block_bytes_(card.block_bytes),
      process_(same_process_ ? ProcessWatch() : ProcessWatch(card.place.process)) {
  if (same_process_) reach_device(card.device);
}

void IpcLink::post() noexcept {
  out_.written();
  wake_.notify();
}

void IpcLink::release() noexcept {
  pulls_.wait();
  imported_.release();
}

std::vector<IpcTraffic> traffic_of(const IpcMember& member) {
  const Pipeline& pipeline = member.pipeline;
  std::vector<IpcTraffic> traffic(pipeline.stages());
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) traffic[stage].from = stage;
  const auto note = [&](StageId neighbour, const std::vector<SlotTensor>& tensors) {
    IpcTraffic& with = traffic[neighbour];
    with.tensors = std::max(with.tensors, static_cast<std::uint32_t>(tensors.size()));
    // Offers from there, and word of what came from here.
    with.words += kDirections * kIterations * pipeline.microbatches();
  };
  const std::span<const Chunk> chunks = pipeline.chunks_of(member.stage);
  for (std::uint32_t position = 0; position < chunks.size() && member.slots.slots() > 0; ++position) {
    const SlotBuffers& slot = member.slots.at(position, 0);
    const auto in = pipeline.in_edges(chunks[position]);
    const auto out = pipeline.out_edges(chunks[position]);
    for (std::size_t i = 0; i < in.size(); ++i)
      note(pipeline.stage_of(pipeline.edges()[in[i]].from), slot.inputs[i]);
    for (std::size_t i = 0; i < out.size(); ++i)
      note(pipeline.stage_of(pipeline.edges()[out[i]].to), slot.outputs[i]);
  }
  std::erase_if(traffic, [](const IpcTraffic& each) { return each.words == 0; });
  return traffic;
}

IpcConnections connect(const IpcMember& member, const AllGather& all_gather) {
  check_place(member.pipeline, member.stage, member.rank_of_stage, ~std::uint32_t{0});
  const std::vector<IpcTraffic> traffic = traffic_of(member);
  const std::uint64_t token = any_number();
  IpcConnections connections{IpcMailbox(token, traffic), {}};
  IpcCard card = card_of(member, connections.own);
  card.token = token;
  const auto cards = all_gather(std::as_bytes(std::span(&card, 1)));
  const std::uint32_t own_rank = member.rank_of_stage[member.stage];
  std::string error;
  std::uint32_t rank = own_rank;
  try {
    check_place(member.pipeline, member.stage, member.rank_of_stage, cards.size());
    for (const IpcTraffic& each : traffic) {
      rank = member.rank_of_stage[each.from];
      const IpcCard other = read_card(rank, cards[rank]);
      check_card(other, each.from, member.pipeline);
      connections.links.push_back(
          std::make_unique<IpcLink>(each, member.stage, rank, connections.own, card.place, other));
    }
  } catch (const std::exception& cause) {
    error = fmt::format("rank {} cannot pull from rank {}: {}", own_rank, rank, cause.what());
  }
  agree_on_success(error, all_gather);
  return connections;
}

}  // namespace sluice::cuda
