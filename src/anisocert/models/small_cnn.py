"""A small convolutional network for digits and MNIST."""

from torch import Tensor, nn


class SmallCNN(nn.Module):
    """Three 3x3 convolutions, the last two with stride 2, then one linear layer. x: `b x c x h x w`."""

    def __init__(self, num_classes: int, channels: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.head = nn.Linear(64, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of `x`."""
        logits: Tensor = self.head(self.features(x).mean(dim=(2, 3)))
        return logits
