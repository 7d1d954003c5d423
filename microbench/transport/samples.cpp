#include "transport/samples.hpp"

#include <algorithm>
#include <vector>

#include "forked_ranks.hpp"
#include "sluice/error.hpp"

namespace sluice::microbench {

Latency summarize(std::span<double> us) {
  std::sort(us.begin(), us.end());
  return {us[us.size() / 2], us[us.size() * 99 / 100]};
}

void run_pair(Cores cores, const std::function<void(process::Bootstrap&)>& work) {
  test::ForkedRanks ranks(2, [&](process::Bootstrap& bootstrap) {
    if (cores == Cores::OneEach) test::pin_to_core(bootstrap.rank());
    work(bootstrap);
    return 0;
  });
  for (const test::Ending& ending : ranks.wait(std::chrono::seconds(120))) {
    if (ending.code != 0) throw Error("a process of the measurement has failed");
  }
}

}  // namespace sluice::microbench
