"""Few features: does the search keep what idle ones give, and isotropic noise what fixed noise has? CPU, one run.

    python benchmarks/tabular.py

scikit-learn's tabular sets, scaled to variance 1. Logistic regression with an l1 penalty, which leaves some weights at
0 (these features are idle), and a small network trained with noise. Of the test inputs that fixed noise certifies
rightly: medians of the ratios to fixed noise's radius and proxy radius. Before any memory: for isotropic and
anisotropic noise, about one input's own classifier. A half-space with ten idle of 20 features comes first.
"""

import argparse

import numpy as np
import torch
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from torch import nn

from anisocert import Anisotropic, Fixed, Gaussian, Isotropic, Plan, certify

SETS = {"iris": datasets.load_iris, "wine": datasets.load_wine, "breast cancer": datasets.load_breast_cancer}


def scaled(name):
    x, y = SETS[name](return_X_y=True)
    x = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
    return train_test_split(x, y, test_size=0.3, random_state=0, stratify=y)


def logistic(x, y, classes, penalty):
    fitted = LogisticRegression(C=penalty, l1_ratio=1.0, solver="saga", max_iter=5000).fit(x, y)
    weight, bias = torch.tensor(fitted.coef_).float(), torch.tensor(fitted.intercept_).float()
    if classes == 2:  # scikit-learn keeps one row
        weight, bias = torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2
    model = nn.Linear(x.shape[1], classes)
    model.weight.data, model.bias.data = weight, bias
    return model.eval(), int((weight.abs().amax(0) == 0).sum())


def small_network(x, y, classes, sigma):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, classes))
    optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=1e-3)
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    for _ in range(500):
        loss = nn.functional.cross_entropy(model(inputs + sigma * torch.randn_like(inputs)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval(), 0


def half_space():
    torch.manual_seed(0)
    weight = torch.cat([torch.randn(10), torch.zeros(10)])
    weight /= weight.norm()
    x = torch.randn(50, 20)
    x += (0.4 - x @ weight)[:, None] * weight
    model = nn.Linear(20, 2)
    model.weight.data, model.bias.data = torch.stack([weight, -weight]) * 5, torch.zeros(2)
    return model.eval(), x.numpy(), np.zeros(len(x), np.int64)


def compare(name, model, x, y, classes, sigma, n, idle):
    sizes = {}
    for method in (Fixed(), Isotropic(limit=6.0), Anisotropic(isotropic=Isotropic(limit=6.0))):
        some = certify(model, x, num_classes=classes, smoothing=Gaussian(sigma), method=method, plan=Plan(n=n))
        right = np.array([c.prediction for c in some]) == y
        sizes[method.name] = [np.array([getattr(c, f) for c in some]) * right for f in ("radius", "proxy_radius")]
    fixed = sizes["fixed"]
    sure = fixed[0] > 0
    ratios = [sizes[m][i][sure] / fixed[i][sure] for m, i in (("isotropic", 0), ("anisotropic", 0), ("anisotropic", 1))]
    print(f"{name:36} {x.shape[1]:3} {idle:4} {sure.mean():6.1%}  " + "  ".join(f"{np.median(r):9.3f}" for r in ratios))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--max", type=int, default=60)
    args = parser.parse_args()
    print(f"{'':36}   d idle  right  isotropic  radius     proxy   (medians of ratios to fixed noise)")
    model, x, y = half_space()
    compare("half-space", model, x[: args.max], y[: args.max], 2, args.sigma, args.n, 10)
    for name in SETS:
        train_x, test_x, train_y, test_y = scaled(name)
        x, y, classes = test_x[: args.max], test_y[: args.max], int(train_y.max()) + 1
        model, idle = logistic(train_x, train_y, classes, 0.1)
        compare(f"{name}, logistic regression", model, x, y, classes, args.sigma, args.n, idle)
        model, idle = small_network(train_x, train_y, classes, args.sigma)
        compare(f"{name}, small network", model, x, y, classes, args.sigma, args.n, idle)


if __name__ == "__main__":
    main()
