#pragma once

#include <cstddef>

namespace fakecuda {

/// Holds the calling worker up for a random while, as the settings say.
void delay();

/// A number in [0, below), drawn from the calling worker's own sequence. Precondition: below > 0.
[[nodiscard]] std::size_t draw(std::size_t below);

}  // namespace fakecuda
