#include "run/spawn.hpp"

#include <pthread.h>

#include <csignal>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sluice/error.hpp"
#include "sluice/process/launcher.hpp"
#include "sluice/process/process_place.hpp"
#if SLUICE_HAVE_TORCH
#include "sluice/torch/tcp_store_bootstrap.hpp"
#endif

namespace sluice::tools {
namespace {

/// As this process was called.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string each; std::getline(file, each, '\0');) arguments.push_back(each);
  return arguments;
}

#if SLUICE_HAVE_TORCH
/// Also for threads that are made from now on: the launcher takes these.
void leave_signals_to_launcher() {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&taken, signal);
  pthread_sigmask(SIG_BLOCK, &taken, nullptr);
}
#endif

/// @return how the ranks ended
process::LaunchResult launch_ranks(const ProcessOptions& processes) {
  process::LaunchOptions options;
  options.ranks = processes.spawn;
  options.command = own_arguments();
#if SLUICE_HAVE_TORCH
  if (processes.rendezvous == "store") {
    leave_signals_to_launcher();
    const gpt::TcpStoreHost store;
    options.port = store.port();
    options.environment.emplace_back("TORCHELASTIC_USE_AGENT_STORE", "True");
    return process::launch(options);
  }
#endif
  return process::launch(options);
}

void spawn(const ProcessOptions& processes) {
  const process::LaunchResult result = launch_ranks(processes);
  if (result.code != 0) throw Error(result.text);
}

}  // namespace

void run_in_processes(const RunOptions& options, const std::function<nlohmann::json()>& configuration,
                      const std::function<void(ProcessSession*)>& work) {
  if (!options.in_processes()) return work(nullptr);
  const auto place = process::environment_place();
  if (!place || place->ranks != options.grid().ranks()) return spawn(options.processes);
  ProcessSession session(options, configuration());
  try {
    work(&session);
    session.finish();
  } catch (const std::exception& error) {
    session.fail(error.what());
    throw;
  }
}

bool leads(ProcessSession* session) { return session == nullptr || session->control().rank() == 0; }

}  // namespace sluice::tools
