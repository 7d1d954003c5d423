#include "run/parallel.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice::tools {

void run_parallel(std::size_t jobs, unsigned threads, const std::function<void(std::size_t)>& job,
                  const std::function<void(std::size_t)>& finished) {
  std::mutex mutex;
  std::size_t next = 0;
  std::size_t done = 0;
  std::exception_ptr error;
  const auto work = [&] {
    std::unique_lock lock(mutex);
    while (next < jobs && !error) {
      const std::size_t mine = next++;
      lock.unlock();
      std::exception_ptr failed;
      try {
        job(mine);
      } catch (...) {
        failed = std::current_exception();
      }
      lock.lock();
      if (failed && !error) error = failed;
      ++done;
      if (finished && !error) finished(done);
    }
  };
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> helpers;
  for (std::size_t i = 1; i < std::min<std::size_t>(threads, jobs); ++i) helpers.emplace_back(work);
  work();
  helpers.clear();
  if (error) std::rethrow_exception(error);
}

}  // namespace sluice::tools
