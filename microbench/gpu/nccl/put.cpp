#include <cstdint>
#include <string>
#include <vector>

#include "cuda/device_rank.hpp"
#include "gpu/message_stream.hpp"
#include "gpu/nccl_rows.hpp"
#include "gpu/payload_sizes.hpp"
#include "gpu/subjects.hpp"
#include "rank_threads.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/host/in_process_group.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/nccl/put_transport.hpp"
#include "sluice/nccl/window_block.hpp"

namespace sluice::microbench {
namespace {

constexpr std::uint32_t kSlots = 2;
constexpr std::uint32_t kMostMessages = 500;

Row measure(const Payload& payload) {
  const Pipeline pipeline = Pipeline::chain(2, static_cast<Microbatch>(payload.messages));
  const std::vector<std::uint32_t> ranks{0, 1};
  const auto elements = static_cast<std::int64_t>(payload.bytes / sizeof(double));
  const std::vector<cuda::EdgeLayout> layouts(1, cuda::EdgeLayout(1, test::vector_shape(elements)));
  const std::vector<cuda::ChunkMemory> chunks(1);
  host::InProcessGroup group(std::vector<Wake*>(2), nccl::PutTransport::needs(pipeline, layouts));
  Row row;
  test::on_each_rank(2, [&](process::Bootstrap& bootstrap) {
    cuda::use_device(0);
    const host::SteadyClock clock;
    const auto stage = static_cast<StageId>(bootstrap.rank());
    const cuda::AllGather all_gather = test::all_gather_of(bootstrap);
    cuda::SlotMemory slots({pipeline, stage, layouts, chunks, cuda::kOneLane, nccl::window_block(all_gather)},
                           kSlots);
    nccl::PutTransport transport({pipeline, stage, ranks, slots, group.channel(bootstrap.rank()), clock},
                                 all_gather);
    if (stage == 0) {
      send_stream(transport, payload.messages, kSlots);
    } else {
      row = median_row(put_row_name(payload), "GB/s",
                       bandwidths(receive_stream(transport, payload.messages, kSlots), payload.bytes));
    }
  });
  row.reference_name = "cudaMemcpyAsync within a process";
  row.reference = plain_copy_bandwidth(payload);
  return row;
}

}  // namespace

std::vector<Row> measure_put_bandwidth(const Effort& effort) {
  if (const std::string reason = why_no_nccl(); !reason.empty()) return puts_not_run(effort, reason);
  std::vector<Row> rows;
  for (const Payload& payload : payloads(effort, kMostMessages)) rows.push_back(measure(payload));
  return rows;
}

}  // namespace sluice::microbench
