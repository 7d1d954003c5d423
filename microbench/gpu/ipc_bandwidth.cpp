#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "cuda/device_rank.hpp"
#include "forked_ranks.hpp"
#include "gpu/message_stream.hpp"
#include "gpu/payload_sizes.hpp"
#include "gpu/subjects.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/error.hpp"

namespace sluice::microbench {
namespace {

constexpr std::uint32_t kSlots = 2;
constexpr std::uint32_t kMostMessages = 2000;

/// What the receiving process leaves behind.
struct Measured {
  std::uint32_t arrivals;
  std::int64_t at_ns[kMostMessages];
  double plain_copy;
};

void serve(process::Bootstrap& bootstrap, const Payload& payload, Measured& measured) {
  cuda::use_device(0);
  const Pipeline pipeline = Pipeline::chain(2, static_cast<Microbatch>(payload.messages));
  const auto stage = static_cast<StageId>(bootstrap.rank());
  const auto elements = static_cast<std::int64_t>(payload.bytes / sizeof(double));
  test::DeviceRank rank(pipeline, stage, {kSlots, 1, elements}, test::all_gather_of(bootstrap));
  if (stage == 0) {
    send_stream(rank.transport(), payload.messages, kSlots);
    return;
  }
  const std::vector<std::int64_t> arrivals = receive_stream(rank.transport(), payload.messages, kSlots);
  std::copy(arrivals.begin(), arrivals.end(), measured.at_ns);
  measured.arrivals = static_cast<std::uint32_t>(arrivals.size());
  measured.plain_copy = plain_copy_bandwidth(payload);
}

Row measure(const Payload& payload) {
  const test::SharedMapping mapping(sizeof(Measured));
  auto& measured = *mapping.as<Measured>();
  test::ForkedRanks ranks(2, [&](process::Bootstrap& bootstrap) {
    serve(bootstrap, payload, measured);
    return 0;
  });
  for (const test::Ending& ending : ranks.wait(std::chrono::seconds(60))) {
    if (ending.code != 0) throw Error("a process that pulls or is pulled from has failed: see its message");
  }
  Row row = median_row("pull from another process, " + payload.name, "GB/s",
                       bandwidths({measured.at_ns, measured.at_ns + measured.arrivals}, payload.bytes));
  row.reference_name = "cudaMemcpyAsync within a process";
  row.reference = measured.plain_copy;
  return row;
}

}  // namespace

std::vector<Row> measure_ipc_bandwidth(const Effort& effort) {
  std::vector<Row> rows;
  for (const Payload& payload : payloads(effort, kMostMessages)) rows.push_back(measure(payload));
  return rows;
}

}  // namespace sluice::microbench
