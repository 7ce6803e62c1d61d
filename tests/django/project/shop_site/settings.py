"""The settings of a shop; a test's own come from the variable SHOP, in JSON."""

import json
import os
import sys

SHOP = json.loads(os.environ["SHOP"])  # noqa: TID251
# What is not installed.
for name in SHOP.get("missing", ()):
    sys.modules[name] = None  # type: ignore[assignment]

SECRET_KEY = "of a test"
DEBUG = True
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "shop_site.urls"
STATIC_URL = "static/"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "skipmq.django",
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = SHOP["databases"]
if "skipmq" in SHOP:
    SKIPMQ = SHOP["skipmq"]
if "tasks" in SHOP:
    INSTALLED_APPS += ["skipmq.django.tasks"]
    TASKS = SHOP["tasks"]
