#include <cstdlib>
#include <optional>
#include <string>

#include "sluice/error.hpp"
#include "sluice/process/process_place.hpp"
#include "sluice/torch/tcp_store_bootstrap.hpp"

namespace sluice::gpt {
namespace {

std::string text_of(const char* variable, const char* otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? text : otherwise;
}

}  // namespace

TcpStoreSettings TcpStoreSettings::from_environment() {
  const std::optional<process::ProcessPlace> place = process::environment_place();
  if (!place) throw ConfigError("RANK", "is not set; torchrun sets it for each rank");
  TcpStoreSettings settings;
  settings.rank = place->rank;
  settings.ranks = place->ranks;
  settings.host = place->host;
  settings.port = place->port;
  settings.hosts = place->rank == 0 && text_of("TORCHELASTIC_USE_AGENT_STORE", "") != "True";
  settings.job = text_of("TORCHELASTIC_RUN_ID", "default") + "/" + text_of("TORCHELASTIC_RESTART_COUNT", "0");
  settings.validate();
  return settings;
}

void TcpStoreSettings::validate() const {
  if (ranks == 0) throw ConfigError("WORLD_SIZE", "must be at least 1");
  if (rank >= ranks) {
    throw ConfigError("RANK", std::to_string(rank) + " is not one of " + std::to_string(ranks) + " ranks");
  }
  if (port == 0) throw ConfigError("MASTER_PORT", "must be 1 to 65535");
  if (timeout <= Duration::zero()) throw ConfigError("timeout", "must be positive");
}

}  // namespace sluice::gpt
