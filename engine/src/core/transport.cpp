#include "sluice/transport.hpp"

namespace sluice {

std::string to_string(const MessageId& id) {
  const char* direction = id.direction == Direction::Activation ? "activation" : "gradient";
  return std::string(direction) + " of edge " + std::to_string(id.edge) + ", microbatch " +
         std::to_string(id.microbatch) + ", iteration " + std::to_string(id.iteration);
}

}  // namespace sluice
