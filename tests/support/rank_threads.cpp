#include "rank_threads.hpp"

#include <exception>
#include <thread>
#include <vector>

#include "memory_bootstrap.hpp"

namespace sluice::test {

void on_each_rank(std::uint32_t ranks, const std::function<void(process::Bootstrap&)>& work) {
  MeetingPlace place(ranks);
  std::vector<std::exception_ptr> errors(ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        MemoryBootstrap bootstrap(place, rank);
        work(bootstrap);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

}  // namespace sluice::test
