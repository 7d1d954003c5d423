#include <charconv>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

#include "sluice/error.hpp"
#include "sluice/torch/tcp_store_bootstrap.hpp"

namespace sluice::gpt {
namespace {

std::string text_of(const char* variable, const char* otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? text : otherwise;
}

template <typename Number>
Number number_of(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) throw ConfigError(variable, "is not set; torchrun sets it for each rank");
  const std::string_view digits = text;
  Number value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) {
    throw ConfigError(variable, "\"" + std::string(digits) + "\" is not a number up to " +
                                    std::to_string(std::numeric_limits<Number>::max()));
  }
  return value;
}

}  // namespace

TcpStoreSettings TcpStoreSettings::from_environment() {
  TcpStoreSettings settings;
  settings.rank = number_of<std::uint32_t>("RANK");
  settings.ranks = number_of<std::uint32_t>("WORLD_SIZE");
  settings.host = text_of("MASTER_ADDR", "");
  if (settings.host.empty()) throw ConfigError("MASTER_ADDR", "is not set; torchrun sets it for each rank");
  settings.port = number_of<std::uint16_t>("MASTER_PORT");
  settings.hosts = settings.rank == 0 && text_of("TORCHELASTIC_USE_AGENT_STORE", "") != "True";
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
